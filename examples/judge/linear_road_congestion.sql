WITH line AS (
    SELECT string_split_regex(trim(column0), '\t+') AS field
    FROM read_csv('data/reports.txt', header = false, delim = '\x01', columns = {'column0': 'VARCHAR'})
),
slice AS (
    SELECT
        field[1]::BIGINT AS second,
        field[4]::INTEGER AS highway,
        field[6]::INTEGER AS direction,
        field[7]::INTEGER // 5280 AS segment,
        count(*) AS reports,
        sum(field[3]::DOUBLE) AS speed
    FROM line
    GROUP BY ALL
),
covered AS (
    SELECT unnest(range(second - 299, second + 1)) AS start, * FROM slice
)
SELECT
    make_timestamp(start * 1000000) AS window_start,
    highway,
    direction,
    segment,
    sum(reports)::BIGINT AS reports,
    sum(speed) / sum(reports) AS speed
FROM covered
GROUP BY ALL
HAVING sum(speed) / sum(reports) < 40
