WITH trade AS (
    SELECT
        upper(regexp_extract(filename, '_([a-z]+)_Trade_Tick', 1)) AS symbol,
        strptime(regexp_extract(filename, '(\d{8})_', 1), '%Y%m%d') + to_milliseconds(column0) AS ts,
        column1::BIGINT AS price,
        column2::BIGINT AS volume
    FROM read_csv('data/trades/*.csv', header = false, filename = true)
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
