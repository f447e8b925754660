WITH person AS (
    SELECT *, time_bucket(INTERVAL '10 seconds', "dateTime") AS window_start
    FROM read_csv('data/nexmark_q8/person.csv', types = {'dateTime': 'TIMESTAMP'})
),
auction AS (
    SELECT *, time_bucket(INTERVAL '10 seconds', "dateTime") AS window_start
    FROM read_csv('data/nexmark_q8/auction.csv', types = {'dateTime': 'TIMESTAMP'})
)
SELECT DISTINCT window_start, id, name
FROM person
WHERE EXISTS (FROM auction WHERE auction.seller = person.id AND auction.window_start = person.window_start)
