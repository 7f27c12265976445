-- name: project-id
SELECT p.project_id FROM ingest.projects p WHERE p.project = $1::int

-- name: create-project
SELECT ingest.create_project_1($1::int, $2) AS project_id

-- name: project-state
SELECT p.version, p.state FROM ingest.projects p WHERE p.project = $1::int

-- name: put-project
SELECT ingest.put_project_1($1::int, $2::uuid, $3::uuid, $4) AS written

-- name: projects
-- administration: crosses projects
SELECT p.project_id
FROM ingest.projects p
WHERE p.state IS NOT NULL
  OR EXISTS (SELECT 1 FROM ingest.heads h WHERE h.project = p.project AND h.events > 0)
  OR EXISTS (SELECT 1 FROM ingest.maps m WHERE m.project = p.project)
ORDER BY p.project_id

-- name: register-server
SELECT ingest.register_server_1($1::uuid, $2::float8 * interval '1 millisecond') AS servers

-- name: unregister-server
SELECT ingest.unregister_server_1($1::uuid)

-- name: size
-- administration: of the whole schema
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint AS bytes
FROM pg_class c
WHERE c.relnamespace = 'ingest'::regnamespace AND c.relkind = 'r'

-- name: check
-- what require_durability_1 refuses; a call of it would be a write
SELECT current_setting('transaction_isolation') AS isolation

-- name: clock
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
