WITH line AS (
    SELECT string_split_regex(trim(column0), '\t+') AS field
    FROM read_csv('data/reports.txt', header = false, delim = '\x01', columns = {'column0': 'VARCHAR'})
),
slice AS (
    SELECT
        field[1]::BIGINT AS second,
        field[2]::INTEGER AS vehicle,
        field[4]::INTEGER AS highway,
        field[6]::INTEGER AS direction,
        field[7]::INTEGER // 5280 AS segment,
        count(*) AS reports
    FROM line
    GROUP BY ALL
),
covered AS (
    SELECT unnest(range(second - 29, second + 1)) AS start, * FROM slice
)
SELECT
    make_timestamp(start * 1000000) AS window_start,
    vehicle,
    highway,
    direction,
    segment,
    sum(reports)::BIGINT AS reports
FROM covered
GROUP BY ALL
