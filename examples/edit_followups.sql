-- What follows each edit of a real Wikipedia: edits of the same wiki around it and in the next minute, and the page that is edited next.
-- data: wikipedia_edits_2015
CREATE TABLE edit (
    `time` TIMESTAMP_LTZ(3),
    channel STRING,
    `user` STRING,
    page STRING,
    isRobot BOOLEAN,
    added BIGINT,
    deleted BIGINT,
    WATERMARK FOR `time` AS `time`
) WITH (
    'connector' = 'filesystem',
    'path' = 'data/edits.json',
    'format' = 'json',
    'json.timestamp-format.standard' = 'ISO-8601'
);

SELECT
    `time`,
    channel,
    page,
    LEAD(page, 1, 'none') OVER by_channel AS page_after,
    LEAD(added, 10) OVER by_channel AS added_later,
    COUNT(*) OVER next_minute AS edits,
    COUNT(*) FILTER (WHERE isRobot) OVER next_minute AS edits_by_robots,
    COUNT(DISTINCT `user`) OVER next_minute AS users,
    MEDIAN(added) OVER next_minute AS median_of_added,
    SUM(added) OVER near AS added_near,
    AVG(CAST(deleted AS DOUBLE)) OVER near AS deleted_near,
    MAX(added) OVER near AS most_added,
    FIRST_VALUE(page) OVER near AS first_page,
    LAST_VALUE(page) OVER near AS last_page,
    SUM(added) OVER (PARTITION BY channel ORDER BY `time` ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS added_from_here
FROM edit
WINDOW
    by_channel AS (PARTITION BY channel ORDER BY `time`),
    next_minute AS (PARTITION BY channel ORDER BY `time` RANGE BETWEEN CURRENT ROW AND INTERVAL '1' MINUTE FOLLOWING),
    near AS (PARTITION BY channel ORDER BY `time` ROWS BETWEEN 4 PRECEDING AND 5 FOLLOWING);
