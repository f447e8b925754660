-- Nexmark, query 7: the bids with the highest price of each ten seconds.
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

CREATE VIEW placed AS
SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '10' SECOND));

SELECT placed.window_start, placed.auction, placed.bidder, placed.price, placed.dateTime
FROM placed
JOIN (SELECT window_start, window_end, MAX(price) AS highest FROM placed GROUP BY window_start, window_end) AS top
    ON placed.window_start = top.window_start AND placed.window_end = top.window_end AND placed.price = top.highest;
