WITH edit AS (
    -- Rows of one time count in the order of the file.
    SELECT *, row_number() OVER () AS place
    FROM read_json(
        'data/edits.json',
        columns = {
            'time': 'TIMESTAMP', 'channel': 'VARCHAR', 'user': 'VARCHAR', 'page': 'VARCHAR',
            'isRobot': 'BOOLEAN', 'added': 'BIGINT', 'deleted': 'BIGINT'
        }
    )
),
gap AS (
    SELECT *, coalesce("time" - lag("time") OVER editor > INTERVAL 10 MINUTE, true) AS begins
    FROM edit
    WINDOW editor AS (PARTITION BY channel, "user" ORDER BY place)
),
numbered AS (
    SELECT *, sum(begins::INT) OVER (PARTITION BY channel, "user" ORDER BY place ROWS UNBOUNDED PRECEDING) AS number FROM gap
)
SELECT
    min("time") AS window_start,
    max("time") + INTERVAL 10 MINUTE AS window_end,
    channel,
    "user",
    count(*) AS edits,
    count(DISTINCT page) AS pages,
    sum(added) FILTER (WHERE NOT isRobot)::BIGINT AS added_by_people,
    max(deleted) AS most_deleted,
    arg_min(page, place) AS first_page
FROM numbered
GROUP BY channel, "user", number
HAVING count(*) >= 3
