-- Segments of a highway where the average speed of the last five minutes is below 40 miles an hour, second by second.
-- data: linear_road_lightsaber
-- The file's columns are aligned with runs of tabs; its time is in seconds, its positions in feet.
CREATE TABLE report (
    seconds BIGINT,
    vehicle INT,
    speed DOUBLE,
    highway INT,
    lane INT,
    direction INT,
    feet INT,
    segment AS feet / 5280,
    ts AS TO_TIMESTAMP_LTZ(seconds * 1000, 3),
    WATERMARK FOR ts AS ts
) WITH (
    'connector' = 'filesystem',
    'path' = 'data/reports.txt',
    'format' = 'csv',
    'csv.field-delimiter' = '\t',
    'csv.delimiter-run' = 'true'
);

SELECT window_start, highway, direction, segment, COUNT(*) AS reports, AVG(speed) AS speed
FROM TABLE(HOP(TABLE report, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '300' SECOND))
GROUP BY window_start, window_end, highway, direction, segment
HAVING AVG(speed) < 40;
