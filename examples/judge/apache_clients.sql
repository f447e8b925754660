WITH hit AS (
    SELECT
        strptime(regexp_extract(column0, '\[([^ ]+)', 1), '%d/%b/%Y:%H:%M:%S') AS ts,
        split_part(column0, ' ', 1) AS client,
        regexp_extract(column0, '"[A-Z]+ ([^ ?]+)', 1) AS asked,
        row_number() OVER () AS place
    FROM read_csv('data/access.log.gz', header = false, delim = '\x01', quote = '', columns = {'column0': 'VARCHAR'}, parallel = false)
)
SELECT
    time_bucket(INTERVAL '10 seconds', ts) AS window_start,
    count(*) AS hits,
    count(DISTINCT client) AS clients,
    count(DISTINCT asked) AS pages,
    arg_max(client, place) AS last_client
FROM hit
GROUP BY ALL
