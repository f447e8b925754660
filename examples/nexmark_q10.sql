-- Nexmark, query 10: bids as files, in a directory for each minute. A file _SUCCESS says that all bids of a minute are there.
-- dumped: bid
CREATE TABLE bid (
    auction BIGINT,
    bidder BIGINT,
    price BIGINT,
    dateTime TIMESTAMP(3),
    extra STRING,
    WATERMARK FOR dateTime AS dateTime - INTERVAL '4' SECOND
) WITH (
    'connector' = 'nexmark',
    'table' = 'bid',
    'rows-per-second' = '1000',
    'pace' = 'flat-out',
    'rows' = '200000',
    'seed' = '10'
);

CREATE TABLE logged (
    auction BIGINT,
    bidder BIGINT,
    price BIGINT,
    dateTime TIMESTAMP(3),
    extra STRING,
    dt STRING,
    hm STRING
) PARTITIONED BY (dt, hm) WITH (
    'connector' = 'filesystem',
    'path' = 'data/nexmark_q10/logged',
    'format' = 'parquet',
    'sink.partition-commit.trigger' = 'partition-time',
    'sink.partition-commit.delay' = '1 min',
    'sink.partition-commit.policy.kind' = 'success-file',
    'partition.time-extractor.timestamp-pattern' = '$dt $hm:00',
    'sink.rolling-policy.rollover-interval' = '1 min',
    'sink.rolling-policy.check-interval' = '1 min'
);

INSERT INTO logged
SELECT auction, bidder, price, dateTime, extra, DATE_FORMAT(dateTime, 'yyyy-MM-dd'), DATE_FORMAT(dateTime, 'HH:mm')
FROM bid;

SELECT auction, bidder, price, dateTime, extra, dt, hm FROM logged;
