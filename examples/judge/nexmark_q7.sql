SELECT time_bucket(INTERVAL '10 seconds', "dateTime") AS window_start, auction, bidder, price, "dateTime"
FROM read_csv('data/nexmark_q7/bid.csv', types = {'dateTime': 'TIMESTAMP'})
QUALIFY price = max(price) OVER (PARTITION BY time_bucket(INTERVAL '10 seconds', "dateTime"))
