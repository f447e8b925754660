SELECT auction, bidder, price, "dateTime", (auction % 10000)::VARCHAR AS note
FROM read_csv('data/nexmark_q13/bid.csv', types = {'dateTime': 'TIMESTAMP'})
WHERE auction % 10000 < 7500
