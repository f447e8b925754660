-- Hits and bytes by minute and status of a web server. Its log is out of order by up to a minute.
-- data: apache_access_log
CREATE TABLE hit (
    client STRING,
    identity STRING,
    user_name STRING,
    time_text STRING,
    zone STRING,
    request STRING,
    status INT,
    bytes BIGINT,
    referrer STRING,
    agent STRING,
    ts AS TO_TIMESTAMP(SUBSTRING(time_text, 2), 'dd/MMM/yyyy:HH:mm:ss'),
    WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE
) WITH (
    'connector' = 'filesystem',
    'path' = 'data/access.log.gz',
    'format' = 'csv',
    'csv.field-delimiter' = ' ',
    'csv.escape-character' = '\',
    'csv.null-literal' = '-'
);

SELECT window_start, status, COUNT(*) AS hits, SUM(bytes) AS bytes
FROM TABLE(TUMBLE(TABLE hit, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, status;
