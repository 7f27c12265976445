-- Queries for the operators of an Ingest database: psql -f operators.sql

-- How many transactions ago each table was frozen. Autovacuum freezes a table at 200 million at the latest; at 2.1
-- billion, PostgreSQL accepts no more writes.
SELECT c.relname, greatest(age(c.relfrozenxid), age(t.relfrozenxid)) AS transactions
FROM pg_class c LEFT JOIN pg_class t ON t.oid = c.reltoastrelid
WHERE c.relnamespace = 'ingest'::regnamespace AND c.relkind = 'r'
ORDER BY transactions DESC;

-- The share of the pages of the index of ids that are found in shared_buffers, since the statistics were reset. The
-- others come from the cache of the system or from disk: with random ids, an index that is larger than the memory reads
-- a page or two an event.
SELECT i.indexrelname, round(i.idx_blks_hit / nullif(i.idx_blks_hit + i.idx_blks_read, 0)::numeric, 4) AS hits,
  pg_size_pretty(pg_relation_size(i.indexrelid)) AS size
FROM pg_statio_user_indexes i
WHERE i.schemaname = 'ingest' AND i.relname LIKE 'event_keys%'
ORDER BY i.indexrelname;

-- What the statements of the servers wait for. DataFileRead: pages that are not in memory. WALSync and SyncRep: the
-- disk and the standby of a commit. transactionid and tuple: another append of the same project.
SELECT a.wait_event_type, a.wait_event, count(*) AS statements
FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.state = 'active' AND a.backend_type = 'client backend'
  AND a.pid <> pg_backend_pid()
GROUP BY a.wait_event_type, a.wait_event
ORDER BY statements DESC;

-- The sessions, prepared transactions and replication slots that keep old versions of rows from being removed, by how
-- many transactions ago they began: a forgotten transaction, a long report, a standby that is gone.
SELECT s.kind, s.name, s.transactions
FROM (
  SELECT 'session' AS kind, a.pid::text AS name, age(a.backend_xmin) AS transactions
  FROM pg_stat_activity a WHERE a.pid <> pg_backend_pid()
  UNION ALL SELECT 'prepared', p.gid, age(p.transaction) FROM pg_prepared_xacts p
  UNION ALL SELECT 'slot', r.slot_name, age(r.xmin) FROM pg_replication_slots r
) s
WHERE s.transactions IS NOT NULL
ORDER BY s.transactions DESC
LIMIT 10;

-- How full the pages of the index of ids are, in percent: about 70 for random ids, 90 for UUIDv7. This reads the whole
-- index. Rebuild an index that is far below: REINDEX INDEX CONCURRENTLY.
CREATE EXTENSION IF NOT EXISTS pgstattuple;
SELECT i.indexrelname, d.avg_leaf_density
FROM pg_stat_user_indexes i, pgstatindex(i.indexrelid::regclass) d
WHERE i.schemaname = 'ingest' AND i.relname LIKE 'event_keys%'
ORDER BY i.indexrelname;
