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
    count(*) OVER minute AS edits,
    count(*) FILTER (WHERE isRobot) OVER minute AS edits_by_robots,
    (sum(added) OVER ten)::BIGINT AS added,
    avg(deleted) OVER ten AS deleted,
    max(added) OVER ten AS most_added,
    stddev_samp(added) OVER ten AS spread_of_added,
    var_pop(deleted) OVER minute AS variance_of_deleted,
    count(DISTINCT "user") OVER minute AS users,
    median(added) OVER minute AS median_of_added,
    quantile_disc(added, 0.9) OVER ten AS large_added,
    string_agg(page, ' | ') OVER ten AS pages,
    lag(page) OVER (PARTITION BY channel ORDER BY place) AS page_before
FROM edit
WINDOW
    minute AS (PARTITION BY channel ORDER BY "time" RANGE BETWEEN INTERVAL 1 MINUTE PRECEDING AND CURRENT ROW),
    ten AS (PARTITION BY channel ORDER BY place ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)
