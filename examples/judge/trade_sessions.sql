WITH trade AS (
    SELECT
        upper(regexp_extract(filename, '_([a-z]+)_Trade_Tick', 1)) AS symbol,
        strptime(regexp_extract(filename, '(\d{8})_', 1), '%Y%m%d') + to_milliseconds(column0) AS ts,
        column1::BIGINT AS price,
        column2::BIGINT AS volume
    FROM read_csv('data/trades/*.csv', header = false, filename = true)
), marked AS (
    SELECT *, coalesce(ts - lag(ts) OVER by_time > INTERVAL '2 seconds', true) AS is_first
    FROM trade
    WINDOW by_time AS (PARTITION BY symbol ORDER BY ts)
), numbered AS (
    SELECT *, count(*) FILTER (WHERE is_first) OVER (PARTITION BY symbol ORDER BY ts) AS number
    FROM marked
)
SELECT
    min(ts) AS window_start,
    max(ts) + INTERVAL '2 seconds' AS window_end,
    symbol,
    count(*) AS trades,
    sum(volume)::BIGINT AS volume,
    max(price) - min(price) AS price_range
FROM numbered
GROUP BY symbol, number
HAVING count(*) > 1
