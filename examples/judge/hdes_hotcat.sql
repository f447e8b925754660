WITH bid AS (
    SELECT *, time_bucket(INTERVAL '5 seconds', "dateTime") AS window_start
    FROM read_csv('data/hdes_hotcat/bid.csv', types = {'dateTime': 'TIMESTAMP'})
),
auction AS (
    SELECT *, time_bucket(INTERVAL '5 seconds', "dateTime") AS window_start
    FROM read_csv('data/hdes_hotcat/auction.csv', types = {'dateTime': 'TIMESTAMP'})
),
counted AS (
    SELECT bid.window_start, category, count(*) AS bids
    FROM bid JOIN auction ON bid.auction = auction.id AND bid.window_start = auction.window_start
    GROUP BY ALL
)
SELECT window_start, category, bids
FROM counted
QUALIFY row_number() OVER (PARTITION BY window_start ORDER BY bids DESC, category) = 1
