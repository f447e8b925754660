-- Hits and bytes by minute and status of a web server. Its log is out of order by up to a minute.
-- data: apache_access_log
-- Not every line is well formed, so whole lines are read, and their parts found in them.
CREATE TABLE hit (
    line STRING,
    status AS CAST(REGEXP_EXTRACT(line, '" (\d{3}) (\d+|-)', 1) AS INT),
    bytes AS CAST(NULLIF(REGEXP_EXTRACT(line, '" (\d{3}) (\d+|-)', 2), '-') AS BIGINT),
    ts AS TO_TIMESTAMP(REGEXP_EXTRACT(line, '\[([^ ]+)', 1), 'dd/MMM/yyyy:HH:mm:ss'),
    WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE
) WITH (
    'connector' = 'filesystem',
    'path' = 'data/access.log.gz',
    'format' = 'csv',
    'csv.field-delimiter' = '\t',
    'csv.disable-quote-character' = 'true'
);

SELECT window_start, status, COUNT(*) AS hits, SUM(bytes) AS bytes
FROM TABLE(TUMBLE(TABLE hit, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, status;
