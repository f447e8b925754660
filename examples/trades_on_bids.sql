-- What a day's real trades paid over the last bid before them: all trades, joined with the latest bid for their symbol, by symbol and hour.
-- data: equity_ticks_2013
-- Prices come in ten-thousandths of a dollar. A quote changes the bid or the ask; the other one is 0.
CREATE TABLE trade (
    symbol STRING,
    ts TIMESTAMP(3),
    price BIGINT,
    volume BIGINT,
    exchange STRING,
    WATERMARK FOR ts AS ts
) WITH (
    'connector' = 'filesystem',
    'path' = 'data/trades.csv',
    'format' = 'csv',
    'csv.header' = 'true'
);

CREATE TABLE quote (
    symbol STRING,
    ts TIMESTAMP(3),
    bid BIGINT,
    bid_size BIGINT,
    ask BIGINT,
    ask_size BIGINT,
    WATERMARK FOR ts AS ts
) WITH (
    'connector' = 'filesystem',
    'path' = 'data/quotes.parquet',
    'format' = 'parquet'
);

SELECT window_start, symbol, COUNT(*) AS trades, COUNT(bid) AS with_bid, SUM(volume) AS volume, SUM(price - bid) AS paid_over_bids, MAX(bid_size) AS most_wanted
FROM TABLE(TUMBLE(
    (
        SELECT t.ts, t.symbol, t.price, t.volume, q.bid, q.bid_size
        FROM trade AS t
        ASOF LEFT JOIN (SELECT symbol, ts, bid, bid_size FROM quote WHERE bid > 0) AS q
            ON t.symbol = q.symbol AND t.ts >= q.ts
    ),
    DESCRIPTOR(ts), INTERVAL '1' HOUR
))
GROUP BY window_start, window_end, symbol;
