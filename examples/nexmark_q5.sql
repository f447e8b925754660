-- Nexmark, query 5: the auctions with the most bids in the last ten seconds, every two seconds. Auctions with as many bids are all reported.
-- dumped: bid
CREATE TABLE bid (
    auction BIGINT,
    dateTime TIMESTAMP(3),
    WATERMARK FOR dateTime AS dateTime - INTERVAL '4' SECOND
) WITH (
    'connector' = 'nexmark',
    'table' = 'bid',
    'rows-per-second' = '2000',
    'pace' = 'flat-out',
    'rows' = '100000',
    'seed' = '5'
);

CREATE VIEW counted AS
SELECT window_start, window_end, auction, COUNT(*) AS bids
FROM TABLE(HOP(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
GROUP BY window_start, window_end, auction;

SELECT counted.window_start, counted.auction, counted.bids
FROM counted
JOIN (SELECT window_start, window_end, MAX(bids) AS most FROM counted GROUP BY window_start, window_end) AS top
    ON counted.window_start = top.window_start AND counted.window_end = top.window_end AND counted.bids >= top.most;
