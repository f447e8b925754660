-- Nexmark, query 13: bids with what a bounded table knows of the last four digits of their auctions.
-- dumped: bid
CREATE TABLE bid (
    auction BIGINT,
    bidder BIGINT,
    price BIGINT,
    dateTime TIMESTAMP(3)
) WITH (
    'connector' = 'nexmark',
    'table' = 'bid',
    'rows' = '200000',
    'seed' = '13'
);

-- A quarter of the keys is missing.
CREATE TABLE side (
    key BIGINT,
    note STRING
) WITH (
    'connector' = 'datagen',
    'number-of-rows' = '7500',
    'pace' = 'flat-out',
    'fields.key.kind' = 'sequence',
    'fields.key.start' = '0',
    'fields.key.end' = '9999',
    'fields.note.kind' = 'sequence',
    'fields.note.start' = '0',
    'fields.note.end' = '9999'
);

SELECT bid.auction, bid.bidder, bid.price, bid.dateTime, side.note
FROM bid JOIN side ON MOD(bid.auction, 10000) = side.key;
