WITH trade AS (
    -- Rows of one time count in the order of the file.
    SELECT symbol, ts::TIMESTAMP AS ts, price::BIGINT AS price, volume::BIGINT AS volume, row_number() OVER () AS place
    FROM read_csv('data/trades.csv', parallel = false)
),
compared AS (
    SELECT
        ts,
        symbol,
        avg(price) OVER last_hundred AS mean,
        sum(volume) OVER last_hundred AS volume,
        count(*) OVER last_minute AS trades,
        max(price) OVER last_minute - min(price) OVER last_minute AS spread
    FROM trade
    WINDOW
        last_hundred AS (PARTITION BY symbol ORDER BY place ROWS BETWEEN 99 PRECEDING AND CURRENT ROW),
        last_minute AS (PARTITION BY symbol ORDER BY ts RANGE BETWEEN INTERVAL 1 MINUTE PRECEDING AND CURRENT ROW)
)
SELECT
    time_bucket(INTERVAL '1 minute', ts) AS window_start,
    symbol,
    min(mean) AS least_mean,
    max(mean) AS greatest_mean,
    max(volume) AS greatest_volume,
    max(trades) AS most_trades,
    max(spread) AS widest_spread
FROM compared
GROUP BY ALL
