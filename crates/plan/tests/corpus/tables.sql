CREATE TEMPORARY TABLE IF NOT EXISTS `my bids` (
  auction BIGINT NOT NULL COMMENT 'which', `timestamp` TIMESTAMP(3), price DECIMAL(12, 2) NULL,
  offset_in_file BIGINT METADATA FROM 'offset' VIRTUAL, cost AS price * 0.9, p AS PROCTIME(),
  PRIMARY KEY (auction) NOT ENFORCED,
  WATERMARK FOR `timestamp` AS `timestamp` - INTERVAL '4' SECOND
) COMMENT 'bids' WITH ('connector' = 'nexmark', 'seed' = '7');
CREATE TABLE t WITH ('connector' = 'ysb'); DROP TABLE IF EXISTS t;
