WITH edit AS (
    SELECT *
    FROM read_json(
        'data/edits.json',
        columns = {'time': 'TIMESTAMP', 'user': 'VARCHAR', 'page': 'VARCHAR', 'added': 'BIGINT', 'isRobot': 'BOOLEAN'}
    )
)
SELECT a."time", a."user", a.page, b."time" AS later, b.page AS page_later, b.added
FROM edit AS a
LEFT JOIN edit AS b
    ON a."user" = b."user"
    AND b."time" > a."time" AND b."time" <= a."time" + INTERVAL 1 MINUTE
    AND a.page <> b.page
WHERE NOT a.isRobot
