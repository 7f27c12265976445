-- The schema, its version, the projects and the servers.
--
-- `project` leads every primary key, every unique index and the arguments of every function that writes. Only functions
-- write, as their owner, so that a role with EXECUTE and SELECT can neither change nor delete a stored event. The
-- version in a function's name lets old and new servers run side by side. Without pg_temp at the end of its
-- search_path, a function would find a type that its caller created there first. Durability and order depend on no
-- setting of the role, the database or a pooler.

-- 'compatible' is the oldest version whose servers may use the schema.
CREATE TABLE ingest.meta (name text COLLATE "C" PRIMARY KEY, value text NOT NULL);
INSERT INTO ingest.meta (name, value) VALUES
  ('version', '0'),
  ('compatible', '1'),
  ('store_id', gen_random_uuid()::text),
  ('epoch', gen_random_uuid()::text);

-- `project` is a hash of the id, so that it stays the same after a failover that lost the row.
-- `state` is the JSON of the keys; `version` is a random id of its last write.
CREATE TABLE ingest.projects (
  project int PRIMARY KEY,
  project_id text COLLATE "C" NOT NULL,
  version uuid,
  state text
);

-- The totals of each project. Appends lock this row until they commit, so that the order of `seq` is that of commits,
-- without gaps: a reader never skips an event that commits later. The free space keeps updates on their page (HOT).
CREATE TABLE ingest.heads (
  project int PRIMARY KEY,
  seq bigint NOT NULL DEFAULT 0,
  first_at bigint,
  last_at bigint,
  events bigint NOT NULL DEFAULT 0,
  bytes bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 10);

CREATE UNLOGGED TABLE ingest.servers (server uuid PRIMARY KEY, seen_at timestamptz NOT NULL);

-- Raises the durability of this transaction to a local flush at least, whatever the session is set to. Its settings
-- hold until the commit has waited for the standby.
CREATE FUNCTION ingest.require_durability_1() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  -- with one snapshot for the transaction, its statements do not see what was stored while they waited for a lock
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION 'default_transaction_isolation is "%", and must be "read committed"', current_setting('transaction_isolation')
      USING ERRCODE = 'IG002';
  END IF;
  IF current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  -- with it, a duplicate would end the connection
  IF current_setting('exit_on_error') = 'on' THEN
    PERFORM set_config('exit_on_error', 'off', true);
  END IF;
  -- only a warning reports a cancelled wait for the standby
  PERFORM set_config('client_min_messages', 'warning', true);
END $$;

-- Whether commits wait for a standby.
CREATE FUNCTION ingest.has_standby_1() RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT current_setting('synchronous_standby_names') <> '';
$$;

-- Makes this transaction wait for the synchronous standby, if there is one, though it writes nothing. After a crash of
-- the primary its log may hold commits that no standby has and that were never acknowledged; a repeated write finds
-- them.
CREATE FUNCTION ingest.await_standby_1() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF ingest.has_standby_1() THEN
    PERFORM pg_logical_emit_message(true, 'ingest', '');
  END IF;
END $$;

-- Like await_standby_1, for a transaction that has locked nothing of the project: while the standby is away, one
-- session of a project waits for it, and the others wait for the lock.
CREATE FUNCTION ingest.await_project_1(project int) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' SET enable_seqscan = off AS $$
#variable_conflict use_variable
BEGIN
  PERFORM ingest.require_durability_1();
  IF ingest.has_standby_1() THEN
    -- the lookup of append_1
    PERFORM FROM ingest.heads h
      WHERE h.project BETWEEN project AND project ORDER BY h.project DESC LIMIT 1 FOR NO KEY UPDATE;
  END IF;
  PERFORM ingest.await_standby_1();
END $$;

-- Returns the id of the project with this number: another one if two ids have the same hash.
CREATE FUNCTION ingest.create_project_1(project int, id text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
#variable_conflict use_variable
BEGIN
  PERFORM ingest.require_durability_1();
  INSERT INTO ingest.projects (project, project_id) VALUES (project, id) ON CONFLICT DO NOTHING;
  INSERT INTO ingest.heads (project) VALUES (project) ON CONFLICT DO NOTHING;
  RETURN (SELECT p.project_id FROM ingest.projects p WHERE p.project = project);
END $$;

-- Writes the state if its version is still `before`. Returns whether the state is written, also if its version is
-- already `after` because this call is repeated.
CREATE FUNCTION ingest.put_project_1(project int, before uuid, after uuid, state text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
#variable_conflict use_variable
DECLARE
  current uuid;
BEGIN
  PERFORM ingest.require_durability_1();
  SELECT p.version INTO current FROM ingest.projects p WHERE p.project = project FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN false; END IF;
  IF current IS NOT DISTINCT FROM after THEN
    PERFORM ingest.await_standby_1();
    RETURN true;
  END IF;
  IF current IS DISTINCT FROM before THEN RETURN false; END IF;
  UPDATE ingest.projects p SET version = after, state = put_project_1.state WHERE p.project = put_project_1.project;
  RETURN true;
END $$;

-- Records a heartbeat of a server. Returns the number of live servers.
CREATE FUNCTION ingest.register_server_1(id uuid, expires_after interval) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
BEGIN
  INSERT INTO ingest.servers (server, seen_at) VALUES (id, clock_timestamp())
    ON CONFLICT (server) DO UPDATE SET seen_at = excluded.seen_at;
  DELETE FROM ingest.servers s WHERE s.seen_at < clock_timestamp() - expires_after * 10;
  RETURN (SELECT count(*) FROM ingest.servers s WHERE s.seen_at > clock_timestamp() - expires_after);
END $$;

CREATE FUNCTION ingest.unregister_server_1(id uuid) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  DELETE FROM ingest.servers s WHERE s.server = id;
$$;
