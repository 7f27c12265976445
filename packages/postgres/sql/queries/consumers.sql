-- name: consumers
SELECT c.version, c.state FROM ingest.consumers c WHERE c.project = $1::int

-- name: put-consumers
SELECT ingest.put_consumers_1($1::int, $2::uuid, $3::uuid, $4) AS written

-- name: consumer-projects
-- administration: crosses projects
SELECT p.project_id
FROM ingest.consumers c
JOIN ingest.projects p ON p.project = c.project
WHERE c.state IS NOT NULL
ORDER BY p.project_id
