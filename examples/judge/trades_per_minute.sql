WITH trade AS (
    SELECT symbol, ts::TIMESTAMP AS ts, price::BIGINT AS price, volume::BIGINT AS volume FROM read_csv('data/trades.csv')
)
SELECT
    time_bucket(INTERVAL '1 minute', ts) AS window_start,
    symbol,
    sum(price * volume)::DOUBLE / sum(volume)::DOUBLE / 10000.0 AS vwap,
    count(*) AS trades,
    max(price) AS high,
    min(price) AS low
FROM trade
GROUP BY ALL
