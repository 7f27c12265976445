-- What servers counted for each project, minute and hour. The random `writer` of a row is that of one minute or hour of one
-- process: no other replaces it. `body` is JSON that only servers read.
CREATE TABLE ingest.activity (
  at bigint NOT NULL,
  project int NOT NULL,
  span text COLLATE "C" NOT NULL,
  writer bytea NOT NULL,
  body text NOT NULL,
  PRIMARY KEY (project, span, at, writer)
);

-- Writes rows of a project, and replaces those with the same key. Returns false, with nothing written, if a failover
-- has lost the project.
CREATE FUNCTION ingest.put_activity_1(
  project int, spans text[], times bigint[], writers bytea[], bodies text[]) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
#variable_conflict use_variable
BEGIN
  PERFORM ingest.require_durability_1();
  IF NOT EXISTS (SELECT FROM ingest.projects p WHERE p.project = project) THEN RETURN false; END IF;
  INSERT INTO ingest.activity AS a (project, span, at, writer, body)
    SELECT put_activity_1.project, r.* FROM unnest(spans, times, writers, bodies) AS r(span, at, writer, body)
    ORDER BY r.span, r.at, r.writer
    ON CONFLICT ON CONSTRAINT activity_pkey DO UPDATE SET body = excluded.body;
  RETURN true;
END $$;

-- Deletes some rows of a project that began before a time; returns how many. It waits for no lock: another server
-- deletes or replaces the rows that it skips.
CREATE FUNCTION ingest.expire_activity_1(project int, before bigint, rows_max int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
  expired int;
BEGIN
  PERFORM ingest.require_durability_1();
  DELETE FROM ingest.activity a WHERE a.project = project AND a.ctid = ANY (ARRAY(
    SELECT o.ctid FROM ingest.activity o
    WHERE o.project = project AND o.span IN ('hour', 'minute', 'rejected-hour', 'rejected-minute') AND o.at < before
    LIMIT rows_max FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS expired = ROW_COUNT;
  RETURN expired;
END $$;
