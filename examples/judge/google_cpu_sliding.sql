WITH line AS (
    SELECT string_split_regex(trim(column0), ' +') AS field
    FROM read_csv('data/task_events.txt', header = false, delim = '\x01', columns = {'column0': 'VARCHAR'})
),
slice AS (
    SELECT
        field[1]::BIGINT AS second,
        field[7]::INTEGER AS category,
        count(*) AS events,
        sum(field[9]::DOUBLE) AS cpu,
        max(field[9]::DOUBLE) AS cpu_max
    FROM line
    GROUP BY ALL
),
covered AS (
    SELECT unnest(range(second - 59, second + 1)) AS start, * FROM slice
)
SELECT
    make_timestamp(start * 1000000) AS window_start,
    category,
    sum(events)::BIGINT AS events,
    sum(cpu) AS cpu,
    max(cpu_max) AS cpu_max
FROM covered
GROUP BY ALL
