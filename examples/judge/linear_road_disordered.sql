SELECT
    time_bucket(INTERVAL '30 seconds', make_timestamp(column01 * 1000000)) AS window_start,
    column06 AS direction,
    column07 AS segment,
    count(*) AS reports,
    count(DISTINCT column02) AS vehicles,
    avg(column03) AS speed
FROM read_csv('data/reports_as_logged.csv', header = false)
WHERE column00 = 0
GROUP BY ALL
