-- The two pages that each session of a Wikipedia editor added most to: sessions as in edit_sessions.sql, and the first rows of each in an order.
-- data: wikipedia_edits_2015
CREATE TABLE edit (
    `time` TIMESTAMP_LTZ(3),
    channel STRING,
    `user` STRING,
    page STRING,
    added BIGINT,
    WATERMARK FOR `time` AS `time`
) WITH (
    'connector' = 'filesystem',
    'path' = 'data/edits.json',
    'format' = 'json',
    'json.timestamp-format.standard' = 'ISO-8601'
);

SELECT window_start, window_end, channel, `user`, page, added, place
FROM (
    SELECT
        *,
        ROW_NUMBER() OVER (PARTITION BY window_start, window_end, channel, `user` ORDER BY added DESC NULLS LAST, page, `time`) AS place
    FROM TABLE(SESSION(TABLE edit PARTITION BY (channel, `user`), DESCRIPTOR(`time`), INTERVAL '10' MINUTE))
)
WHERE place <= 2;
