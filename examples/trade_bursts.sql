-- Bursts of real trades: trades of one symbol that follow each other within a second, and at least a hundred of them.
-- data: equity_ticks_2013
-- Prices come in ten-thousandths of a dollar.
CREATE TABLE trade (
    symbol STRING,
    ts TIMESTAMP(3),
    price BIGINT,
    volume BIGINT,
    exchange STRING,
    WATERMARK FOR ts AS ts
) WITH (
    'connector' = 'filesystem',
    'path' = 'data/trades.csv',
    'format' = 'csv',
    'csv.header' = 'true'
);

SELECT
    window_start,
    window_end,
    symbol,
    COUNT(*) AS trades,
    SUM(volume) AS volume,
    FIRST_VALUE(price) AS opened,
    LAST_VALUE(price) AS closed,
    MEDIAN(price) AS median
FROM TABLE(SESSION(TABLE trade PARTITION BY symbol, DESCRIPTOR(ts), INTERVAL '1' SECOND))
GROUP BY window_start, window_end, symbol
HAVING COUNT(*) >= 100;
