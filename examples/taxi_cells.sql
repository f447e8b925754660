-- Where taxis are hailed for longer trips: trips of more than a mile by pickup cell (250 m squares) and ten minutes.
-- data: nyc_taxi_2013
-- The file does not name the vendor. One of the two, VTS, records whole minutes only.
CREATE TABLE trip (
    medallion STRING,
    license STRING,
    pickup_time TIMESTAMP(0),
    dropoff_time TIMESTAMP(0),
    seconds INT,
    distance DOUBLE,
    pickup_lon DOUBLE,
    pickup_lat DOUBLE,
    dropoff_lon DOUBLE,
    dropoff_lat DOUBLE,
    payment STRING,
    fare DECIMAL(8, 2),
    surcharge DECIMAL(8, 2),
    mta_tax DECIMAL(8, 2),
    tip DECIMAL(8, 2),
    tolls DECIMAL(8, 2),
    total DECIMAL(8, 2),
    WATERMARK FOR dropoff_time AS dropoff_time
) WITH (
    'connector' = 'filesystem',
    'path' = 'data/trips.csv',
    'format' = 'csv'
);

-- The origin of the cells is the north-west corner; a degree is 6371 km * pi / 180 long, west to east as well.
CREATE VIEW placed AS
SELECT
    dropoff_time,
    distance,
    CASE WHEN EXTRACT(SECOND FROM pickup_time) = 0 AND EXTRACT(SECOND FROM dropoff_time) = 0 THEN 'VTS' ELSE 'CMT' END AS vendor,
    CAST(ROUND((41.4760611520074 - pickup_lat) * PI() / 180 * 6371 / 0.25) AS INT) + 1 AS pickup_south,
    CAST(ROUND((pickup_lon + 74.9147071520074) * PI() / 180 * 6371 / 0.25) AS INT) + 1 AS pickup_east,
    CAST(ROUND((41.4760611520074 - dropoff_lat) * PI() / 180 * 6371 / 0.25) AS INT) + 1 AS dropoff_south,
    CAST(ROUND((dropoff_lon + 74.9147071520074) * PI() / 180 * 6371 / 0.25) AS INT) + 1 AS dropoff_east
FROM trip;

SELECT window_start, pickup_south * 599 + pickup_east AS cell, COUNT(*) AS trips, AVG(distance) AS miles
FROM TABLE(TUMBLE(TABLE placed, DESCRIPTOR(dropoff_time), INTERVAL '10' MINUTE))
WHERE vendor = 'VTS' AND distance > 1
    AND pickup_south BETWEEN 1 AND 600 AND pickup_east BETWEEN 1 AND 600
    AND dropoff_south BETWEEN 1 AND 600 AND dropoff_east BETWEEN 1 AND 600
GROUP BY window_start, window_end, pickup_south * 599 + pickup_east;
