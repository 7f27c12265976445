-- name: activity
SELECT a.at, encode(a.writer, 'hex') AS writer, a.body
FROM ingest.activity a
WHERE a.project = $1::int AND a.span = $2::text AND (a.at, a.writer) > ($3::bigint, $4::bytea) AND a.at < $5::bigint
ORDER BY a.at, a.writer
LIMIT $6::int

-- name: put-activity
SELECT ingest.put_activity_1($1::int, $2::text[], $3::bigint[], $4::bytea[], $5::text[]) AS written

-- name: activity-projects
-- administration: crosses projects
-- The next projects, and whether the oldest row of each began before a time: four index lookups for each project.
SELECT p.project, coalesce(least(
  (SELECT a.at FROM ingest.activity a WHERE a.project = p.project AND a.span = 'minute' ORDER BY a.at LIMIT 1),
  (SELECT a.at FROM ingest.activity a WHERE a.project = p.project AND a.span = 'hour' ORDER BY a.at LIMIT 1),
  (SELECT a.at FROM ingest.activity a WHERE a.project = p.project AND a.span = 'rejected-minute' ORDER BY a.at LIMIT 1),
  (SELECT a.at FROM ingest.activity a WHERE a.project = p.project AND a.span = 'rejected-hour' ORDER BY a.at LIMIT 1)
) < $3::bigint, false) AS expires
FROM ingest.projects p
WHERE p.project > $1::bigint
ORDER BY p.project
LIMIT $2::int

-- name: expire-activity
SELECT ingest.expire_activity_1($1::int, $2::bigint, $3::int) AS expired
