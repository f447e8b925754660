-- The auctions with more than twenty bids in ten seconds, and what was offered for them.
-- The stream is made up here; `pelton run examples/hot_auctions.sql` shows the windows as they close.
CREATE TABLE bid (
    auction BIGINT,
    price BIGINT,
    dateTime TIMESTAMP(3),
    WATERMARK FOR dateTime AS dateTime - INTERVAL '4' SECOND
) WITH (
    'connector' = 'nexmark',
    'table' = 'bid',
    'rows' = '200000'
);

SELECT window_start, auction, COUNT(*) AS bids, MAX(price) AS highest, AVG(price) AS average
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
GROUP BY window_start, window_end, auction
HAVING COUNT(*) > 20;
