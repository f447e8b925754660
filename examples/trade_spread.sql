-- How the prices of real trades were spread, minute by minute: percentiles, deviation, and how near estimates come to them.
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
    symbol,
    MEDIAN(price) AS median,
    PERCENTILE_CONT(0.05) WITHIN GROUP (ORDER BY price) AS low,
    PERCENTILE_DISC(0.95) WITHIN GROUP (ORDER BY price) AS high,
    STDDEV_POP(CAST(price AS DOUBLE)) AS deviation,
    COUNT(DISTINCT exchange) AS exchanges,
    COUNT(DISTINCT price) AS prices,
    ABS(APPROX_COUNT_DISTINCT(price) - COUNT(DISTINCT price)) <= 1 + 0.03 * COUNT(DISTINCT price) AS nearly_prices,
    ABS(APPROX_PERCENTILE(volume, 0.95) / PERCENTILE_DISC(0.95) WITHIN GROUP (ORDER BY volume) - 1) <= 0.004 AS nearly_volume
FROM TABLE(TUMBLE(TABLE trade, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, symbol;
