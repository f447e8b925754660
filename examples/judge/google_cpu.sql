WITH line AS (
    SELECT string_split_regex(trim(column0), ' +') AS field
    FROM read_csv('data/task_events.txt', header = false, delim = '\x01', columns = {'column0': 'VARCHAR'})
)
SELECT
    time_bucket(INTERVAL '1 minute', make_timestamp(field[1]::BIGINT * 1000000)) AS window_start,
    field[7]::INTEGER AS category,
    count(*) AS events,
    sum(field[9]::DOUBLE) AS cpu
FROM line
GROUP BY ALL
