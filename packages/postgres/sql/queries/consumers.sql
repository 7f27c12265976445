-- name: consumers
SELECT c.version, c.state FROM ingest.consumers c WHERE c.project = $1::int

-- name: put-consumers
SELECT ingest.put_consumers_1($1::int, $2::uuid, $3::uuid, $4) AS written

-- name: consumer-projects
-- administration: crosses projects
-- The next rows of consumers, with the id of the project if it has some now.
SELECT c.project, CASE WHEN c.state IS NOT NULL THEN (
  SELECT p.project_id FROM ingest.projects p WHERE p.project = c.project
) END AS project_id
FROM ingest.consumers c
WHERE c.project > $1::bigint
ORDER BY c.project
LIMIT $2::int
