-- Minute bars of real trades: volume-weighted average price, number of trades, highest and lowest price per symbol.
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
    CAST(SUM(price * volume) AS DOUBLE) / CAST(SUM(volume) AS DOUBLE) / 10000.0 AS vwap,
    COUNT(*) AS trades,
    MAX(price) AS high,
    MIN(price) AS low
FROM TABLE(TUMBLE(TABLE trade, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, symbol;
