-- HPPA of HDES (highest price per auction): the highest bid above the reserve for each auction, every five seconds, of auctions that were opened within them.
-- HDES takes the time at which pairs leave the join for the second window; here it is the window of the join.
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

SELECT window_start, id, MAX(price) AS highest
FROM bid_for
WHERE price > reserve
GROUP BY window_start, window_end, id;
