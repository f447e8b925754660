WITH bid AS (
    SELECT *, epoch_ms("dateTime") // 2000 AS slice FROM read_csv('data/nexmark_q5/bid.csv', types = {'dateTime': 'TIMESTAMP'})
),
covered AS (
    SELECT unnest(range(slice - 4, slice + 1)) AS start, auction FROM bid
),
counted AS (
    SELECT start, auction, count(*) AS bids FROM covered GROUP BY ALL
)
SELECT make_timestamp(start * 2000000) AS window_start, auction, bids
FROM counted
QUALIFY bids = max(bids) OVER (PARTITION BY start)
