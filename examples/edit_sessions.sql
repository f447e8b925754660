-- Sessions of real Wikipedia editors: edits by one user of one wiki that follow each other within ten minutes, and at least three of them.
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
    window_start,
    window_end,
    channel,
    `user`,
    COUNT(*) AS edits,
    COUNT(DISTINCT page) AS pages,
    SUM(added) FILTER (WHERE NOT isRobot) AS added_by_people,
    MAX(deleted) AS most_deleted,
    FIRST_VALUE(page) AS first_page
FROM TABLE(SESSION(TABLE edit PARTITION BY (channel, `user`), DESCRIPTOR(`time`), INTERVAL '10' MINUTE))
GROUP BY window_start, window_end, channel, `user`
HAVING COUNT(*) >= 3;
