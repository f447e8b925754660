-- How many cars reported from each segment of a highway in each half minute, and how fast they were. A quarter of the log's rows go backwards in time.
-- data: linear_road_driver_sample
-- Windows are reported when cars ten seconds further on have reported, and once more when a report comes later than that: the last row of a group is what it has in the end.
-- judged: the last row of each window_start, direction, segment
CREATE TABLE logged (
    kind INT,
    seconds BIGINT,
    vehicle INT,
    speed INT,
    highway INT,
    lane INT,
    direction INT,
    segment INT,
    feet INT,
    query INT,
    origin INT,
    destination INT,
    day_of_week INT,
    time_of_day INT,
    `day` INT,
    ts AS TO_TIMESTAMP_LTZ(seconds * 1000, 3),
    WATERMARK FOR ts AS ts - INTERVAL '10' SECOND
) WITH (
    'connector' = 'filesystem',
    'path' = 'data/reports_as_logged.csv',
    'format' = 'csv'
);

CREATE VIEW report AS SELECT * FROM logged WHERE kind = 0;

SET 'table.exec.emit.allow-lateness' = '5 min';

SELECT
    window_start,
    direction,
    segment,
    COUNT(*) AS reports,
    COUNT(DISTINCT vehicle) AS vehicles,
    AVG(CAST(speed AS DOUBLE)) AS speed
FROM TABLE(TUMBLE(TABLE report, DESCRIPTOR(ts), INTERVAL '30' SECOND))
GROUP BY window_start, window_end, direction, segment;
