SELECT
    time_bucket(INTERVAL '1 minute', ts::TIMESTAMP) AS window_start,
    symbol,
    median(price)::DOUBLE AS median,
    quantile_cont(price::DOUBLE, 0.05) AS low,
    quantile_disc(price, 0.95) AS high,
    stddev_pop(price) AS deviation,
    count(DISTINCT exchange) AS exchanges,
    count(DISTINCT price) AS prices,
    true AS nearly_prices,
    true AS nearly_volume
FROM read_csv('data/trades.csv')
GROUP BY ALL
