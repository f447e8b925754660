-- Nexmark, query 8: who registered and opened an auction within the same ten seconds.
-- dumped: person, auction
CREATE TABLE person (
    id BIGINT,
    name STRING,
    dateTime TIMESTAMP(3),
    WATERMARK FOR dateTime AS dateTime - INTERVAL '4' SECOND
) WITH (
    'connector' = 'nexmark',
    'table' = 'person',
    'rows-per-second' = '10000',
    'pace' = 'flat-out',
    'number-of-events' = '500000',
    'seed' = '8'
);

CREATE TABLE auction (
    seller BIGINT,
    dateTime TIMESTAMP(3),
    WATERMARK FOR dateTime AS dateTime - INTERVAL '4' SECOND
) WITH (
    'connector' = 'nexmark',
    'table' = 'auction',
    'rows-per-second' = '10000',
    'pace' = 'flat-out',
    'number-of-events' = '500000',
    'seed' = '8'
);

SELECT p.window_start, p.id, p.name
FROM (
    SELECT window_start, window_end, id, name
    FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
    GROUP BY window_start, window_end, id, name
) AS p
JOIN (
    SELECT window_start, window_end, seller
    FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))
    GROUP BY window_start, window_end, seller
) AS a
    ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end;
