WITH line AS (
    SELECT string_split_regex(trim(column0), ' +') AS field
    FROM read_csv('data/task_events.txt', header = false, delim = '\x01', columns = {'column0': 'VARCHAR'})
),
slice AS (
    SELECT field[1]::BIGINT AS second, field[2]::BIGINT AS job, count(*) AS tasks, sum(field[9]::DOUBLE) AS cpu
    FROM line
    WHERE field[5]::INTEGER = 3
    GROUP BY ALL
),
covered AS (
    SELECT unnest(range(second - 59, second + 1)) AS start, * FROM slice
)
SELECT make_timestamp(start * 1000000) AS window_start, job, sum(tasks)::BIGINT AS tasks, sum(cpu) / sum(tasks) AS cpu
FROM covered
GROUP BY ALL
