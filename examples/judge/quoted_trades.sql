WITH traded AS (
    SELECT
        time_bucket(INTERVAL '1 second', ts::TIMESTAMP) AS window_start,
        symbol,
        count(*) AS trades,
        sum(volume)::BIGINT AS volume,
        (sum(price * volume) // sum(volume))::BIGINT AS price
    FROM read_csv('data/trades.csv')
    WHERE ts < TIMESTAMP '2013-10-08 00:00:00'
    GROUP BY ALL
),
quoted AS (
    SELECT
        time_bucket(INTERVAL '1 second', ts::TIMESTAMP) AS window_start,
        symbol,
        count(*) AS quotes,
        max(bid) AS bid,
        min(ask) FILTER (WHERE ask > 0) AS ask
    FROM read_parquet('data/quotes.parquet')
    WHERE ts < TIMESTAMP '2013-10-08 00:00:00'
    GROUP BY ALL
)
SELECT window_start, symbol, trades, volume, price, quotes, bid, ask
FROM traded JOIN quoted USING (window_start, symbol)
