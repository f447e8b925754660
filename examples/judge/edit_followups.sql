WITH edit AS (
    -- Rows of one time stand in the order of the file.
    SELECT *, row_number() OVER () AS place
    FROM read_json(
        'data/edits.json',
        columns = {
            'time': 'TIMESTAMP', 'channel': 'VARCHAR', 'user': 'VARCHAR', 'page': 'VARCHAR',
            'isRobot': 'BOOLEAN', 'added': 'BIGINT', 'deleted': 'BIGINT'
        }
    )
)
SELECT
    "time",
    channel,
    page,
    lead(page, 1, 'none') OVER by_channel AS page_after,
    lead(added, 10) OVER by_channel AS added_later,
    count(*) OVER next_minute AS edits,
    count(*) FILTER (WHERE isRobot) OVER next_minute AS edits_by_robots,
    count(DISTINCT "user") OVER next_minute AS users,
    median(added) OVER next_minute AS median_of_added,
    (sum(added) OVER near)::BIGINT AS added_near,
    avg(deleted) OVER near AS deleted_near,
    max(added) OVER near AS most_added,
    first_value(page) OVER near AS first_page,
    last_value(page) OVER near AS last_page,
    (sum(added) OVER (PARTITION BY channel ORDER BY place ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING))::BIGINT AS added_from_here
FROM edit
WINDOW
    by_channel AS (PARTITION BY channel ORDER BY place),
    next_minute AS (PARTITION BY channel ORDER BY "time" RANGE BETWEEN CURRENT ROW AND INTERVAL 1 MINUTE FOLLOWING),
    near AS (PARTITION BY channel ORDER BY place ROWS BETWEEN 4 PRECEDING AND 5 FOLLOWING)
