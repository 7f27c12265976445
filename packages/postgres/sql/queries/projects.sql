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
-- The next projects, with the id of those that hold anything.
SELECT p.project, CASE WHEN p.state IS NOT NULL
  OR EXISTS (SELECT FROM ingest.heads h WHERE h.project = p.project AND h.events > 0 OFFSET 0)
  OR EXISTS (SELECT FROM ingest.maps m WHERE m.project = p.project OFFSET 0)
  THEN p.project_id END AS project_id
FROM ingest.projects p
WHERE p.project > $1::bigint
ORDER BY p.project
LIMIT $2::int

-- name: register-server
SELECT ingest.register_server_1($1::uuid, $2::float8 * interval '1 millisecond') AS servers

-- name: unregister-server
SELECT ingest.unregister_server_1($1::uuid)

-- name: size
-- administration: the size of the whole schema, and the oldest transaction id whose dead rows vacuum must keep, or null.
-- Every role sees these ids, but not when transactions of other roles began. Autovacuum has no role and keeps no rows.
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint AS bytes,
  (
    SELECT h.xmin::text
    FROM (
      SELECT a.backend_xmin AS xmin FROM pg_stat_activity a
      WHERE a.pid <> pg_backend_pid() AND a.usesysid IS NOT NULL
        AND (a.datname = current_database() OR a.datname IS NULL)
      UNION ALL SELECT p.transaction FROM pg_prepared_xacts p WHERE p.database = current_database()
      UNION ALL SELECT r.xmin FROM pg_replication_slots r
    ) h
    WHERE h.xmin IS NOT NULL
    ORDER BY age(h.xmin) DESC
    LIMIT 1
  ) AS oldest
FROM pg_class c
WHERE c.relnamespace = 'ingest'::regnamespace AND c.relkind = 'r'

-- name: check
-- the setting that require_durability_1 checks; a call of that function would be a write
SELECT current_setting('transaction_isolation') AS isolation

-- name: clock
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now
