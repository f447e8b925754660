-- What each edit of a real Wikipedia comes after: edits of the same wiki in the last minute, and how much the last ten changed.
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
    COUNT(*) OVER minute AS edits,
    COUNT(*) FILTER (WHERE isRobot) OVER minute AS edits_by_robots,
    SUM(added) OVER ten AS added,
    AVG(CAST(deleted AS DOUBLE)) OVER ten AS deleted,
    MAX(added) OVER ten AS most_added,
    STDDEV_SAMP(CAST(added AS DOUBLE)) OVER ten AS spread_of_added,
    VAR_POP(CAST(deleted AS DOUBLE)) OVER minute AS variance_of_deleted,
    COUNT(DISTINCT `user`) OVER minute AS users,
    MEDIAN(added) OVER minute AS median_of_added,
    PERCENTILE_DISC(added, 0.9) OVER ten AS large_added,
    LISTAGG(page, ' | ') OVER ten AS pages,
    LAG(page) OVER (PARTITION BY channel ORDER BY `time`) AS page_before
FROM edit
WINDOW
    minute AS (PARTITION BY channel ORDER BY `time` RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW),
    ten AS (PARTITION BY channel ORDER BY `time` ROWS BETWEEN 9 PRECEDING AND CURRENT ROW);
