-- The positions of readers: all consumers of a project in one row, as JSON, which is null before the first. `version`
-- is a random id of the last write. The free space keeps updates on their page (HOT). In
-- `projects`, it would grow the rows of 100,000 projects from 46 to 781 MB.
CREATE TABLE ingest.consumers (
  project int PRIMARY KEY,
  version uuid,
  state text
) WITH (fillfactor = 10);

-- Writes the state if its version is still `before`, or already `after` because this write is repeated. Returns whether
-- the state is written.
CREATE FUNCTION ingest.put_consumers_1(project int, before uuid, after uuid, state text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
#variable_conflict use_variable
DECLARE
  current uuid;
BEGIN
  PERFORM ingest.require_durability_1();
  -- a failover may have lost the project
  IF NOT EXISTS (SELECT FROM ingest.projects p WHERE p.project = project) THEN RETURN false; END IF;
  INSERT INTO ingest.consumers (project) VALUES (project) ON CONFLICT DO NOTHING;
  SELECT c.version INTO current FROM ingest.consumers c WHERE c.project = project FOR NO KEY UPDATE;
  IF current IS NOT DISTINCT FROM after THEN
    PERFORM ingest.await_standby_1();
    RETURN true;
  END IF;
  IF current IS DISTINCT FROM before THEN RETURN false; END IF;
  UPDATE ingest.consumers c SET version = after, state = put_consumers_1.state WHERE c.project = put_consumers_1.project;
  RETURN true;
END $$;
