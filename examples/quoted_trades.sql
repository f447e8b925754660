-- How the prices of a day's real trades lay within what was quoted: trades and quotes of the same symbol and second.
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

SELECT t.window_start, t.symbol, t.trades, t.volume, t.price, q.quotes, q.bid, q.ask
FROM (
    SELECT window_start, window_end, symbol, COUNT(*) AS trades, SUM(volume) AS volume, SUM(price * volume) / SUM(volume) AS price
    FROM TABLE(TUMBLE(TABLE trade, DESCRIPTOR(ts), INTERVAL '1' SECOND))
    WHERE ts < TIMESTAMP '2013-10-08 00:00:00'
    GROUP BY window_start, window_end, symbol
) AS t
JOIN (
    SELECT window_start, window_end, symbol, COUNT(*) AS quotes, MAX(bid) AS bid, MIN(ask) FILTER (WHERE ask > 0) AS ask
    FROM TABLE(TUMBLE(TABLE quote, DESCRIPTOR(ts), INTERVAL '1' SECOND))
    WHERE ts < TIMESTAMP '2013-10-08 00:00:00'
    GROUP BY window_start, window_end, symbol
) AS q
    ON t.symbol = q.symbol AND t.window_start = q.window_start AND t.window_end = q.window_end;
