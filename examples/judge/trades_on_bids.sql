WITH bids AS (
    -- Of several bids for a symbol at one time the last.
    SELECT symbol, ts, arg_max(bid, file_row_number) AS bid, arg_max(bid_size, file_row_number) AS bid_size
    FROM read_parquet('data/quotes.parquet', file_row_number = true)
    WHERE bid > 0
    GROUP BY symbol, ts
)
SELECT
    time_bucket(INTERVAL '1 hour', t.ts::TIMESTAMP) AS window_start,
    t.symbol,
    count(*) AS trades,
    count(q.bid) AS with_bid,
    sum(t.volume)::BIGINT AS volume,
    sum(t.price - q.bid)::BIGINT AS paid_over_bids,
    max(q.bid_size) AS most_wanted
FROM read_csv('data/trades.csv') AS t
ASOF LEFT JOIN bids AS q ON t.symbol = q.symbol AND t.ts::TIMESTAMP >= q.ts
GROUP BY ALL
