WITH hit AS (
    SELECT
        strptime(regexp_extract(column0, '\[([^ ]+)', 1), '%d/%b/%Y:%H:%M:%S') AS ts,
        regexp_extract(column0, '" (\d{3}) (\d+|-)', ['status', 'bytes']) AS reply
    FROM read_csv('data/access.log.gz', header = false, delim = '\x01', quote = '', columns = {'column0': 'VARCHAR'})
)
SELECT
    time_bucket(INTERVAL '1 minute', ts) AS window_start,
    reply.status::INTEGER AS status,
    count(*) AS hits,
    sum(nullif(reply.bytes, '-')::BIGINT) AS bytes
FROM hit
GROUP BY ALL
