-- name: activity
SELECT a.at, encode(a.writer, 'hex') AS writer, a.body
FROM ingest.activity a
WHERE a.project = $1::int AND a.span = $2::text AND (a.at, a.writer) > ($3::bigint, $4::bytea) AND a.at < $5::bigint
ORDER BY a.at, a.writer
LIMIT $6::int

-- name: put-activity
SELECT ingest.put_activity_1($1::int[], $2::text[], $3::bigint[], $4::bytea[], $5::text[]) AS written

-- name: expire-activity
-- administration: crosses projects
SELECT ingest.expire_activity_1($1::bigint, $2::int) AS expired
