WITH bid AS (
    SELECT *, time_bucket(INTERVAL '5 seconds', "dateTime") AS window_start
    FROM read_csv('data/hdes_hppa/bid.csv', types = {'dateTime': 'TIMESTAMP'})
),
auction AS (
    SELECT *, time_bucket(INTERVAL '5 seconds', "dateTime") AS window_start
    FROM read_csv('data/hdes_hppa/auction.csv', types = {'dateTime': 'TIMESTAMP'})
)
SELECT bid.window_start, auction.id, max(price) AS highest
FROM bid JOIN auction ON bid.auction = auction.id AND bid.window_start = auction.window_start
WHERE price > reserve
GROUP BY ALL
