-- Which page a user of a real Wikipedia edits within a minute of another; edits with none in that minute stay.
-- data: wikipedia_edits_2015
CREATE TABLE edit (
    `time` TIMESTAMP_LTZ(3),
    `user` STRING,
    page STRING,
    added BIGINT,
    isRobot BOOLEAN,
    WATERMARK FOR `time` AS `time`
) WITH (
    'connector' = 'filesystem',
    'path' = 'data/edits.json',
    'format' = 'json',
    'json.timestamp-format.standard' = 'ISO-8601'
);

SELECT a.`time`, a.`user`, a.page, b.`time` AS later, b.page AS page_later, b.added
FROM edit AS a
LEFT JOIN edit AS b
    ON a.`user` = b.`user`
    AND b.`time` > a.`time` AND b.`time` <= a.`time` + INTERVAL '1' MINUTE
    AND a.page <> b.page
WHERE NOT a.isRobot;
