-- The average of all smart plugs' measurements over the last hour, second by second.
-- data: debs2014_smart_grid
-- The file's columns are aligned with runs of blanks; its time is in seconds.
CREATE TABLE measurement (
    seconds BIGINT,
    measured DOUBLE,
    property INT,
    plug INT,
    household INT,
    house INT,
    ts AS TO_TIMESTAMP_LTZ(seconds * 1000, 3),
    WATERMARK FOR ts AS ts
) WITH (
    'connector' = 'filesystem',
    'path' = 'data/smart_grid.txt',
    'format' = 'csv',
    'csv.field-delimiter' = ' ',
    'csv.delimiter-run' = 'true'
);

SELECT window_start, COUNT(*) AS measurements, AVG(measured) AS average
FROM TABLE(HOP(TABLE measurement, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '3600' SECOND))
GROUP BY window_start, window_end;
