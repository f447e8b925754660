WITH trip AS (
    SELECT
        column02::TIMESTAMP AS pickup_time,
        column03::TIMESTAMP AS dropoff_time,
        column05::DOUBLE AS distance,
        round(radians(41.4760611520074 - column07) * 6371 / 0.25)::INTEGER + 1 AS pickup_south,
        round(radians(column06 + 74.9147071520074) * 6371 / 0.25)::INTEGER + 1 AS pickup_east,
        round(radians(41.4760611520074 - column09) * 6371 / 0.25)::INTEGER + 1 AS dropoff_south,
        round(radians(column08 + 74.9147071520074) * 6371 / 0.25)::INTEGER + 1 AS dropoff_east
    FROM read_csv('data/trips.csv', header = false)
)
SELECT
    time_bucket(INTERVAL '10 minutes', dropoff_time) AS window_start,
    pickup_south * 599 + pickup_east AS cell,
    count(*) AS trips,
    avg(distance) AS miles
FROM trip
WHERE second(pickup_time) = 0 AND second(dropoff_time) = 0 AND distance > 1
    AND pickup_south BETWEEN 1 AND 600 AND pickup_east BETWEEN 1 AND 600
    AND dropoff_south BETWEEN 1 AND 600 AND dropoff_east BETWEEN 1 AND 600
GROUP BY ALL
