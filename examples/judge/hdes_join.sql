WITH first_events AS (
    SELECT *, time_bucket(INTERVAL '5 seconds', event_time) AS window_start
    FROM read_csv('data/hdes_join/first_events.csv', types = {'event_time': 'TIMESTAMP'})
),
second_events AS (
    SELECT *, time_bucket(INTERVAL '5 seconds', event_time) AS window_start
    FROM read_csv('data/hdes_join/second_events.csv', types = {'event_time': 'TIMESTAMP'})
)
SELECT window_start, value, a.event_time AS first_time, b.event_time AS second_time
FROM first_events AS a JOIN second_events AS b USING (window_start, value)
