-- The basic join of HDES: events of two streams with equal values in the same five seconds.
-- One of 10,001 values is in both streams. It comes once a second, so that each window has 25 pairs.
-- dumped: first_events, second_events
CREATE TABLE first_events (WATERMARK FOR event_time AS event_time) WITH (
    'connector' = 'hdes',
    'stream' = '1',
    'rows-per-second' = '10001',
    'pace' = 'flat-out',
    'rows' = '200020'
);

CREATE TABLE second_events (WATERMARK FOR event_time AS event_time) WITH (
    'connector' = 'hdes',
    'stream' = '2',
    'rows-per-second' = '10001',
    'pace' = 'flat-out',
    'rows' = '200020'
);

SELECT a.window_start, a.`value`, a.event_time AS first_time, b.event_time AS second_time
FROM TABLE(TUMBLE(TABLE first_events, DESCRIPTOR(event_time), INTERVAL '5' SECOND)) AS a
JOIN TABLE(TUMBLE(TABLE second_events, DESCRIPTOR(event_time), INTERVAL '5' SECOND)) AS b
    ON a.`value` = b.`value` AND a.window_start = b.window_start AND a.window_end = b.window_end;
