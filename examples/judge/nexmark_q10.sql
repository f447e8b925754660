SELECT auction, bidder, price, "dateTime", extra, strftime("dateTime", '%Y-%m-%d') AS dt, strftime("dateTime", '%H:%M') AS hm
FROM read_csv('data/nexmark_q10/bid.csv', types = {'dateTime': 'TIMESTAMP'})
