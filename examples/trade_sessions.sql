-- Bursts of trading: trades of one symbol that follow each other within two seconds.
-- data: equity_ticks_2013
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
    MAX(price) - MIN(price) AS price_range
FROM TABLE(SESSION(TABLE trade PARTITION BY symbol, DESCRIPTOR(ts), INTERVAL '2' SECOND))
GROUP BY window_start, window_end, symbol
HAVING COUNT(*) > 1;
