-- Nexmark, query 7: the bids with the highest price of each ten seconds. A bid at the very end of a window counts in two.
-- dumped: bid
CREATE TABLE bid (
    auction BIGINT,
    bidder BIGINT,
    price BIGINT,
    dateTime TIMESTAMP(3),
    WATERMARK FOR dateTime AS dateTime - INTERVAL '4' SECOND
) WITH (
    'connector' = 'nexmark',
    'table' = 'bid',
    'rows-per-second' = '10000',
    'pace' = 'flat-out',
    'rows' = '500000',
    'seed' = '7'
);

SELECT b.auction, b.bidder, b.price, b.dateTime
FROM bid AS b
JOIN (
    SELECT MAX(price) AS highest, window_end AS ended
    FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
    GROUP BY window_start, window_end
) AS top
    ON b.price = top.highest
WHERE b.dateTime BETWEEN top.ended - INTERVAL '10' SECOND AND top.ended;
