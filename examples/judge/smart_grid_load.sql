WITH line AS (
    SELECT string_split_regex(trim(column0), ' +') AS field
    FROM read_csv('data/smart_grid.txt', header = false, delim = '\x01', columns = {'column0': 'VARCHAR'})
),
slice AS (
    SELECT field[1]::BIGINT AS second, count(*) AS measurements, sum(field[2]::DOUBLE) AS measured
    FROM line
    GROUP BY ALL
),
covered AS (
    SELECT unnest(range(second - 3599, second + 1)) AS start, * FROM slice
)
SELECT
    make_timestamp(start * 1000000) AS window_start,
    sum(measurements)::BIGINT AS measurements,
    sum(measured) / sum(measurements) AS average
FROM covered
GROUP BY ALL
