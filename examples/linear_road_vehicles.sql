-- How often each vehicle reported from each segment of a highway in the last 30 seconds, second by second.
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

SELECT window_start, vehicle, highway, direction, segment, COUNT(*) AS reports
FROM TABLE(HOP(TABLE report, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '30' SECOND))
GROUP BY window_start, window_end, vehicle, highway, direction, segment;
