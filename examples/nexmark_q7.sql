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

-- The last millisecond of a window is the time attribute of its results: the bounds are the window's start and end.
SELECT b.auction, b.bidder, b.price, b.dateTime
FROM bid AS b
JOIN (
    SELECT MAX(price) AS highest, window_time
    FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
    GROUP BY window_start, window_end, window_time
) AS top
    ON b.price = top.highest
WHERE b.dateTime BETWEEN top.window_time - INTERVAL '9.999' SECOND AND top.window_time + INTERVAL '0.001' SECOND;
