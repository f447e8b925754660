-- Clients of a web server and what they asked for, in each ten seconds. Its log is out of order by up to a minute.
-- data: apache_access_log
-- Windows are reported when the first line of the next one is read, and once more when lines come late: the last row of a window is what it has in the end.
-- judged: the last row of each window_start
CREATE TABLE hit (
    line STRING,
    client AS SPLIT_INDEX(line, ' ', 0),
    asked AS REGEXP_EXTRACT(line, '"[A-Z]+ ([^ ?]+)', 1),
    ts AS TO_TIMESTAMP(REGEXP_EXTRACT(line, '\[([^ ]+)', 1), 'dd/MMM/yyyy:HH:mm:ss'),
    WATERMARK FOR ts AS ts
) WITH (
    'connector' = 'filesystem',
    'path' = 'data/access.log.gz',
    'format' = 'csv',
    'csv.field-delimiter' = '\t',
    'csv.disable-quote-character' = 'true'
);

SET 'table.exec.emit.allow-lateness' = '1 min';

SELECT
    window_start,
    COUNT(*) AS hits,
    COUNT(DISTINCT client) AS clients,
    COUNT(DISTINCT asked) AS pages,
    LAST_VALUE(client) AS last_client
FROM TABLE(TUMBLE(TABLE hit, DESCRIPTOR(ts), INTERVAL '10' SECOND))
GROUP BY window_start, window_end;
