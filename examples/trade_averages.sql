-- Each real trade among the hundred trades of its symbol up to it, and among those of the minute up to it; the extremes of both by minute.
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

CREATE VIEW compared AS
SELECT
    ts,
    symbol,
    AVG(CAST(price AS DOUBLE)) OVER last_hundred AS mean,
    SUM(CAST(volume AS DOUBLE)) OVER last_hundred AS volume,
    COUNT(*) OVER last_minute AS trades,
    MAX(price) OVER last_minute - MIN(price) OVER last_minute AS spread
FROM trade
WINDOW
    last_hundred AS (PARTITION BY symbol ORDER BY ts ROWS BETWEEN 99 PRECEDING AND CURRENT ROW),
    last_minute AS (PARTITION BY symbol ORDER BY ts RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW);

SELECT
    window_start,
    symbol,
    MIN(mean) AS least_mean,
    MAX(mean) AS greatest_mean,
    MAX(volume) AS greatest_volume,
    MAX(trades) AS most_trades,
    MAX(spread) AS widest_spread
FROM TABLE(TUMBLE(TABLE compared, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, symbol;
