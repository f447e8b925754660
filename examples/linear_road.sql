-- Linear Road: the toll of each segment of a highway, minute by minute, in SQL alone (the ten operators of Enjima's version).
-- data: linear_road_driver_sample
-- A segment that had a report once is reported each minute of the day from then on, with a toll of 0 where nobody drives.
-- An accident is active in a minute where a window of two minutes that ends in it has two cars standing at one place.
CREATE TABLE input (
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
    WATERMARK FOR ts AS ts
) WITH (
    'connector' = 'filesystem',
    'path' = 'data/reports_sorted.csv',
    'format' = 'csv'
);

CREATE VIEW report AS
SELECT ts, vehicle, speed, highway, lane, direction, segment, feet FROM input WHERE kind = 0;

CREATE VIEW counted AS
SELECT window_start, window_end, window_time, highway, direction, segment, COUNT(*) AS reports
FROM TABLE(TUMBLE(TABLE report, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, window_time, highway, direction, segment;

-- The mean of the mean speeds of the cars, both rounded down.
CREATE VIEW measured AS
SELECT window_start, window_end, window_time, highway, direction, segment, SUM(speed) / COUNT(*) AS speed
FROM (
    SELECT window_start, window_end, window_time, highway, direction, segment, vehicle, CAST(SUM(speed) AS BIGINT) / COUNT(*) AS speed
    FROM TABLE(TUMBLE(TABLE report, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
    GROUP BY window_start, window_end, window_time, highway, direction, segment, vehicle
) AS car
GROUP BY window_start, window_end, window_time, highway, direction, segment;

CREATE VIEW observation AS
SELECT c.window_time AS observed, c.highway, c.direction, c.segment, c.reports, m.speed
FROM counted AS c JOIN measured AS m
    ON c.highway = m.highway AND c.direction = m.direction AND c.segment = m.segment
    AND c.window_start = m.window_start AND c.window_end = m.window_end;

-- Each segment since its first report of the day: the sums up to the end of each minute.
CREATE VIEW summed AS
SELECT window_start AS `day`, window_end, window_time, highway, direction, segment, SUM(reports) AS reports, SUM(speed) AS speeds
FROM TABLE(CUMULATE(TABLE observation, DESCRIPTOR(observed), INTERVAL '1' MINUTE, INTERVAL '1' DAY))
GROUP BY window_start, window_end, window_time, highway, direction, segment;

-- The reports of the minute, and the mean speed of the last five minutes, this one included.
CREATE VIEW segment_minute AS
SELECT
    window_time AS minute_time,
    highway,
    direction,
    segment,
    reports - LAG(reports, 1, 0) OVER so_far AS reports,
    (speeds - LAG(speeds, 5, 0) OVER so_far) / LEAST(5, ROW_NUMBER() OVER so_far) AS speed
FROM summed
WINDOW so_far AS (PARTITION BY `day`, highway, direction, segment ORDER BY window_time);

CREATE VIEW standing AS
SELECT window_start, window_end, window_time, highway, lane, direction, feet, vehicle
FROM TABLE(HOP(TABLE report, DESCRIPTOR(ts), INTERVAL '30' SECOND, INTERVAL '120' SECOND))
WHERE lane BETWEEN 1 AND 3 AND speed = 0
GROUP BY window_start, window_end, window_time, highway, lane, direction, feet, vehicle
HAVING COUNT(*) >= 4;

CREATE VIEW accident AS
SELECT window_time AS detected, highway, direction, feet / 5280 AS segment
FROM standing
GROUP BY window_start, window_end, window_time, highway, lane, direction, feet
HAVING COUNT(*) >= 2;

-- An accident closes its own segment and the four before it.
CREATE VIEW affected AS
SELECT accident.detected, accident.highway, accident.direction, accident.segment + reach.distance AS segment
FROM accident
JOIN (VALUES (0, 0), (0, -1), (0, -2), (0, -3), (0, -4), (1, 0), (1, 1), (1, 2), (1, 3), (1, 4)) AS reach (direction, distance)
    ON accident.direction = reach.direction;

CREATE VIEW closed AS
SELECT window_start, window_end, highway, direction, segment
FROM TABLE(TUMBLE(TABLE affected, DESCRIPTOR(detected), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end, highway, direction, segment;

-- The sample ends within its sixth minute.
SELECT
    s.window_end AS minute_end,
    s.highway,
    s.direction,
    s.segment,
    s.reports,
    s.speed,
    CASE WHEN s.speed < 40 AND s.reports > 50 AND c.segment IS NULL THEN 2 * (s.reports - 50) * (s.reports - 50) ELSE 0 END AS toll
FROM TABLE(TUMBLE(TABLE segment_minute, DESCRIPTOR(minute_time), INTERVAL '1' MINUTE)) AS s
LEFT JOIN closed AS c
    ON s.highway = c.highway AND s.direction = c.direction AND s.segment = c.segment
    AND s.window_start = c.window_start AND s.window_end = c.window_end
WHERE s.window_end <= TO_TIMESTAMP_LTZ(300000, 3);
