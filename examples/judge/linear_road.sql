WITH report AS (
    SELECT
        column01 AS second,
        column01 // 60 AS minute,
        column02 AS vehicle,
        column03 AS speed,
        column04 AS highway,
        column05 AS lane,
        column06 AS direction,
        column07 AS segment,
        column08 AS feet
    FROM read_csv('data/reports_sorted.csv', header = false)
    WHERE column00 = 0
),
car AS (
    SELECT minute, highway, direction, segment, vehicle, count(*) AS reports, sum(speed) // count(*) AS speed
    FROM report
    GROUP BY ALL
),
observed AS (
    SELECT minute, highway, direction, segment, sum(reports) AS reports, sum(speed) // count(*) AS speed
    FROM car
    GROUP BY ALL
),
-- Each segment in each whole minute from its first report on.
known AS (
    SELECT highway, direction, segment, unnest(range(min(minute), 5)) AS minute
    FROM observed
    GROUP BY ALL
),
series AS (
    SELECT minute, highway, direction, segment, coalesce(reports, 0) AS reports, coalesce(speed, 0) AS speed
    FROM known LEFT JOIN observed USING (minute, highway, direction, segment)
),
averaged AS (
    SELECT *, sum(speed) OVER five_minutes // count(*) OVER five_minutes AS recent_speed
    FROM series
    WINDOW five_minutes AS (PARTITION BY highway, direction, segment ORDER BY minute ROWS 4 PRECEDING)
),
-- A report is in the four panes of two minutes that end behind it.
pane AS (
    SELECT unnest(range(second // 30 + 1, second // 30 + 5)) * 30 AS pane_end, *
    FROM report
    WHERE lane BETWEEN 1 AND 3 AND speed = 0
),
standing AS (
    SELECT pane_end, highway, lane, direction, feet, vehicle
    FROM pane
    GROUP BY ALL
    HAVING count(*) >= 4
),
accident AS (
    SELECT (pane_end - 1) // 60 AS minute, highway, direction, feet // 5280 AS segment
    FROM standing
    GROUP BY pane_end, highway, lane, direction, feet
    HAVING count(*) >= 2
)
SELECT
    make_timestamp((minute + 1) * 60000000) AS minute_end,
    highway,
    direction,
    segment,
    reports::BIGINT AS reports,
    recent_speed::BIGINT AS speed,
    CASE
        WHEN recent_speed >= 40 OR reports <= 50 THEN 0
        WHEN EXISTS (
            FROM accident AS a
            WHERE a.minute = averaged.minute AND a.highway = averaged.highway AND a.direction = averaged.direction
                AND CASE averaged.direction
                    WHEN 0 THEN a.segment BETWEEN averaged.segment AND averaged.segment + 4
                    ELSE a.segment BETWEEN averaged.segment - 4 AND averaged.segment
                END
        ) THEN 0
        ELSE 2 * (reports - 50) * (reports - 50)
    END::BIGINT AS toll
FROM averaged
