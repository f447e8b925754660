WITH bid AS (
    SELECT * FROM read_csv('data/nexmark_q7/bid.csv', types = {'dateTime': 'TIMESTAMP'})
),
top AS (
    SELECT max(price) AS highest, time_bucket(INTERVAL '10 seconds', "dateTime") + INTERVAL '10 seconds' AS ended
    FROM bid
    GROUP BY ended
)
SELECT auction, bidder, price, "dateTime"
FROM bid JOIN top ON price = highest AND "dateTime" BETWEEN ended - INTERVAL '10 seconds' AND ended
