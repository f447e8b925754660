-- CPU asked for by the tasks of each job of a Google cluster that failed in the last minute, second by second.
-- data: google_cluster_task_events
-- The file's columns are aligned with runs of blanks; its time is in seconds.
CREATE TABLE task_event (
    seconds BIGINT,
    job BIGINT,
    task BIGINT,
    machine BIGINT,
    event_type INT,
    user_id INT,
    category INT,
    priority INT,
    cpu DOUBLE,
    ram DOUBLE,
    disk DOUBLE,
    constraints INT,
    ts AS TO_TIMESTAMP_LTZ(seconds * 1000, 3),
    WATERMARK FOR ts AS ts
) WITH (
    'connector' = 'filesystem',
    'path' = 'data/task_events.txt',
    'format' = 'csv',
    'csv.field-delimiter' = ' ',
    'csv.delimiter-run' = 'true'
);

SELECT window_start, job, COUNT(*) AS tasks, AVG(cpu) AS cpu
FROM TABLE(HOP(TABLE task_event, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '60' SECOND))
WHERE event_type = 3
GROUP BY window_start, window_end, job;
