-- HotCat of HDES (hot categories): the category with the most bids every five seconds, of bids for auctions that were opened within them.
-- HDES takes the time at which pairs leave the join for the later windows, and the first of several categories; here it is the window of the join, and the lowest category.
-- dumped: bid, auction
CREATE TABLE bid (WATERMARK FOR dateTime AS dateTime) WITH (
    'connector' = 'hdes',
    'table' = 'bid',
    'rows-per-second' = '20000',
    'pace' = 'flat-out',
    'rows' = '400000',
    'seed' = '1337'
);

CREATE TABLE auction (WATERMARK FOR dateTime AS dateTime) WITH (
    'connector' = 'hdes',
    'table' = 'auction',
    'rows-per-second' = '20000',
    'pace' = 'flat-out',
    'rows' = '400000',
    'seed' = '1337'
);

CREATE VIEW bid_for AS
SELECT b.window_start, b.window_end, a.id, a.category, a.reserve, b.price
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '5' SECOND)) AS b
JOIN TABLE(TUMBLE(TABLE auction, DESCRIPTOR(dateTime), INTERVAL '5' SECOND)) AS a
    ON b.auction = a.id AND b.window_start = a.window_start AND b.window_end = a.window_end;

SELECT window_start, category, bids
FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY bids DESC, category) AS place
    FROM (SELECT window_start, window_end, category, COUNT(*) AS bids FROM bid_for GROUP BY window_start, window_end, category) AS counted
) AS placed
WHERE place = 1;
