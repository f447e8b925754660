WITH trade AS (
    -- Rows of one time count in the order of the file.
    SELECT symbol, ts::TIMESTAMP AS ts, price::BIGINT AS price, volume::BIGINT AS volume, row_number() OVER () AS place
    FROM read_csv('data/trades.csv', parallel = false)
),
gap AS (
    SELECT *, coalesce(ts - lag(ts) OVER (PARTITION BY symbol ORDER BY place) > INTERVAL 1 SECOND, true) AS begins FROM trade
),
numbered AS (
    SELECT *, sum(begins::INT) OVER (PARTITION BY symbol ORDER BY place ROWS UNBOUNDED PRECEDING) AS number FROM gap
),
burst AS (
    SELECT symbol, number FROM numbered GROUP BY ALL HAVING count(*) >= 100
)
SELECT
    min(ts) AS window_start,
    max(ts) + INTERVAL 1 SECOND AS window_end,
    symbol,
    count(*) AS trades,
    sum(volume)::BIGINT AS volume,
    arg_min(price, place) AS opened,
    arg_max(price, place) AS closed,
    median(price)::DOUBLE AS median
FROM numbered JOIN burst USING (symbol, number)
GROUP BY symbol, number
