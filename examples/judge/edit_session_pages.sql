WITH edit AS (
    -- Rows of one time count in the order of the file.
    SELECT *, row_number() OVER () AS position
    FROM read_json(
        'data/edits.json',
        columns = {'time': 'TIMESTAMP', 'channel': 'VARCHAR', 'user': 'VARCHAR', 'page': 'VARCHAR', 'added': 'BIGINT'}
    )
),
gap AS (
    SELECT *, coalesce("time" - lag("time") OVER editor > INTERVAL 10 MINUTE, true) AS begins
    FROM edit
    WINDOW editor AS (PARTITION BY channel, "user" ORDER BY position)
),
numbered AS (
    SELECT *, sum(begins::INT) OVER (PARTITION BY channel, "user" ORDER BY position ROWS UNBOUNDED PRECEDING) AS number FROM gap
)
SELECT
    min("time") OVER session AS window_start,
    max("time") OVER session + INTERVAL 10 MINUTE AS window_end,
    channel,
    "user",
    page,
    added,
    row_number() OVER (session ORDER BY added DESC NULLS LAST, page, "time") AS place
FROM numbered
WINDOW session AS (PARTITION BY channel, "user", number)
QUALIFY place <= 2
