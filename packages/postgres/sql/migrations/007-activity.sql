-- What servers counted of a project in each minute and hour: a process writes its own rows, which its random `writer` tells
-- from those of others. `body` is JSON that only servers read.
CREATE TABLE ingest.activity (
  at bigint NOT NULL,
  project int NOT NULL,
  span text COLLATE "C" NOT NULL,
  writer bytea NOT NULL,
  body text NOT NULL,
  PRIMARY KEY (project, span, at, writer)
);
CREATE INDEX activity_by_time ON ingest.activity (at);

-- Writes rows, and replaces those with the same key. Returns false, with nothing written, if a failover has lost one of the
-- projects.
CREATE FUNCTION ingest.put_activity_1(
  projects int[], spans text[], times bigint[], writers bytea[], bodies text[]) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
#variable_conflict use_variable
BEGIN
  PERFORM ingest.require_durability_1();
  IF (SELECT count(*) FROM ingest.projects p WHERE p.project = ANY (projects))
    < (SELECT count(DISTINCT u.project) FROM unnest(projects) AS u(project))
  THEN
    RETURN false;
  END IF;
  INSERT INTO ingest.activity AS a (project, span, at, writer, body)
    SELECT r.* FROM unnest(projects, spans, times, writers, bodies) AS r(project, span, at, writer, body)
    ORDER BY r.project, r.span, r.at, r.writer
    ON CONFLICT (project, span, at, writer) DO UPDATE SET body = excluded.body;
  RETURN true;
END $$;

-- Deletes the oldest rows of all projects that began before a time; returns how many. It waits for no lock: another server
-- deletes or replaces the rows that it skips.
CREATE FUNCTION ingest.expire_activity_1(before bigint, rows_max int) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
#variable_conflict use_variable
DECLARE
  expired int;
BEGIN
  PERFORM ingest.require_durability_1();
  DELETE FROM ingest.activity a WHERE a.ctid = ANY (ARRAY(
    SELECT o.ctid FROM ingest.activity o WHERE o.at < before ORDER BY o.at LIMIT rows_max FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS expired = ROW_COUNT;
  RETURN expired;
END $$;
