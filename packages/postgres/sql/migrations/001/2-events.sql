-- The log and the ids of events.

-- Rows are written once: an early vacuum freezes them permanently, so that a vacuum against wraparound has nothing to
-- do.

-- The id of each event ever stored: 0x01 and 16 bytes for a UUID in lower case, else 0x02 and its UTF-8.
CREATE TABLE ingest.event_keys (
  -- in this order, a row has no padding
  batch bigint NOT NULL,
  project int NOT NULL,
  idx smallint NOT NULL,
  key bytea NOT NULL,
  PRIMARY KEY (project, key)
) WITH (autovacuum_freeze_min_age = 0, autovacuum_vacuum_insert_scale_factor = 0.01) /*partitions*/;

-- One row for each batch: the exact bytes of its events, joined by U+001E, which JSON cannot contain unescaped. An
-- event that was known before is empty, an erased one is the JSON string of its id. `seq` grows by 1.
CREATE TABLE ingest.batches (
  project int NOT NULL,
  id bigint NOT NULL,
  seq bigint NOT NULL,
  received_at bigint NOT NULL,
  events int NOT NULL,
  body text NOT NULL,
  PRIMARY KEY (project, id)
) WITH (autovacuum_freeze_min_age = 0, autovacuum_vacuum_insert_scale_factor = 0.01);
CREATE UNIQUE INDEX batches_by_seq ON ingest.batches (project, seq);
CREATE INDEX batches_by_time ON ingest.batches (project, received_at, seq);

-- lz4 costs nothing measurable, but not every build of PostgreSQL has it.
DO $$
BEGIN
  ALTER TABLE ingest.batches ALTER COLUMN body SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported OR invalid_parameter_value THEN
  NULL;
END $$;

-- A build with an event is frozen: `frozen_at` is set. A publication creates a build without events.
CREATE TABLE ingest.builds (
  project int NOT NULL,
  build_id text COLLATE "C" NOT NULL,
  frozen_at bigint,
  PRIMARY KEY (project, build_id)
);
-- Orders builds by their freeze; open builds come after all others.
CREATE INDEX builds_newest ON ingest.builds (project, coalesce(frozen_at, 9223372036854775806), build_id);

-- Stores batches of one project, and freezes the builds of their new events.
--
-- `first_id`, first_id + 1, … are the ids of the batches; `received`, `counts` (of events) and `bodies` have one
-- element for each batch; `keys`, `batch_nos` (from 0), `idxs` and `build_nos` (into `builds`, 0 for none) one for each
-- event, in the order of the batches. `expect_new` makes the call faster if all events are new, and slower if not. A
-- repeated call with the same ids finds the keys that it stored and returns the same result.
--
-- `fresh` holds the numbers (from 1) of the events that this call stored, or is null if it stored all of them;
-- `conflicts`, by batch, how many events differ from the event that another call stored under their key, or is null.
-- `frozen` are the builds that it froze, or null; a repeated call does not return them again. `keys_ms` is the time
-- that the keys took, and `head_ms` the wait for the head after that.
--
-- Locks: keys ascending, head, builds ascending, maps of the project. All functions keep this order.
CREATE FUNCTION ingest.append_1(
  project int, first_id bigint, expect_new boolean, received bigint[], counts int[], bodies text[],
  keys bytea[], batch_nos int[], idxs smallint[], build_nos int[], builds text[],
  OUT fresh int[], OUT conflicts int[], OUT frozen text[], OUT keys_ms float8, OUT head_ms float8)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' SET enable_seqscan = off AS $$
#variable_conflict use_variable
DECLARE
  started timestamptz := clock_timestamp();
  event_count int := cardinality(keys);
  inserted int;
  stored_batches bigint[];
  stored_idxs smallint[];
  is_fresh boolean[];
  batch_count int;
  head tid;
  base bigint;
  now_ms bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint + 1000;
  last bigint;
  open_builds text[];
BEGIN
  PERFORM ingest.require_durability_1();
  -- keys ascending, so that concurrent appends of the same ids wait for each other in one order
  IF expect_new THEN
    BEGIN
      -- ON CONFLICT locks each row and writes a record for it
      INSERT INTO ingest.event_keys (project, key, batch, idx)
        SELECT project, e.key, first_id + e.batch_no, e.idx
        FROM unnest(keys, batch_nos, idxs) AS e(key, batch_no, idx)
        ORDER BY e.key, e.batch_no;
      inserted := event_count;
    EXCEPTION WHEN unique_violation THEN
      NULL;
    END;
  END IF;
  IF inserted IS NULL THEN
    INSERT INTO ingest.event_keys (project, key, batch, idx)
      SELECT project, e.key, first_id + e.batch_no, e.idx
      FROM unnest(keys, batch_nos, idxs) AS e(key, batch_no, idx)
      ORDER BY e.key, e.batch_no
      ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS inserted = ROW_COUNT;
  END IF;

  IF inserted < event_count THEN
    -- LIMIT keeps a plan that reads all keys, the fastest one while there are few, from being cached
    SELECT array_agg(k.batch ORDER BY e.no), array_agg(k.idx ORDER BY e.no), array_agg(k.is_fresh ORDER BY e.no),
        coalesce(array_agg(e.no::int ORDER BY e.no) FILTER (WHERE k.is_fresh), '{}')
      INTO stored_batches, stored_idxs, is_fresh, fresh
      FROM unnest(keys, batch_nos, idxs) WITH ORDINALITY AS e(key, batch_no, idx, no),
        LATERAL (
          SELECT k.batch, k.idx, k.batch = first_id + e.batch_no AND k.idx = e.idx AS is_fresh
          FROM ingest.event_keys k WHERE k.project = project AND k.key = e.key LIMIT 1) k;
    conflicts := ingest.count_conflicts_1(project, first_id, bodies, batch_nos, stored_batches, stored_idxs);
    keys_ms := extract(epoch FROM clock_timestamp() - started) * 1000;
    head_ms := 0;
    -- nothing is new, or this call is repeated
    IF inserted = 0 THEN
      PERFORM ingest.await_project_1(project);
      RETURN;
    END IF;
    SELECT array_agg(b.body ORDER BY b.batch_no), array_agg(b.events ORDER BY b.batch_no) INTO bodies, counts
      FROM (
        SELECT e.batch_no, count(*) FILTER (WHERE e.is_fresh)::int AS events,
          string_agg(CASE WHEN e.is_fresh THEN e.event ELSE '' END, E'\x1e' ORDER BY e.no) AS body
        FROM ROWS FROM (string_to_table(array_to_string(bodies, E'\x1e'), E'\x1e'), unnest(batch_nos), unnest(is_fresh))
          WITH ORDINALITY AS e(event, batch_no, is_fresh, no)
        GROUP BY e.batch_no) b;
  END IF;

  SELECT count(*) INTO batch_count FROM unnest(counts) AS c(events) WHERE c.events > 0;
  keys_ms := extract(epoch FROM clock_timestamp() - started) * 1000;
  -- An open snapshot, such as that of pg_dump, keeps a version of the head for every commit since. The index has the
  -- versions of one key in the order of the table; read backwards, the newest comes first.
  SELECT h.ctid INTO head FROM ingest.heads h
    WHERE h.project BETWEEN project AND project ORDER BY h.project DESC LIMIT 1 FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    -- the store creates the project and repeats the call
    RAISE EXCEPTION 'the project does not exist' USING ERRCODE = 'IG001';
  END IF;
  UPDATE ingest.heads h
    SET seq = h.seq + batch_count,
      first_at = coalesce(h.first_at, (SELECT least(r.at, now_ms)
        FROM unnest(received, counts) WITH ORDINALITY AS r(at, events, no) WHERE r.events > 0 ORDER BY r.no LIMIT 1)),
      last_at = greatest(h.last_at, (SELECT least(max(r.at), now_ms)
        FROM unnest(received, counts) AS r(at, events) WHERE r.events > 0)),
      events = h.events + inserted,
      bytes = h.bytes + (SELECT sum(ingest.counted_bytes_1(b.body)) FROM unnest(bodies, counts) AS b(body, events) WHERE b.events > 0)
    WHERE h.ctid = head
    RETURNING h.seq - batch_count INTO STRICT base;
  head_ms := extract(epoch FROM clock_timestamp() - started) * 1000 - keys_ms;
  -- the head is locked, so the newest stored batch is the one before these
  SELECT b.received_at INTO last FROM ingest.batches b WHERE b.project = project AND b.seq = base;
  -- a server with a fast clock must not shift the times of all later batches; times never decrease
  SELECT array_agg(t.at ORDER BY t.no) INTO received
    FROM (
      SELECT r.no, greatest(last, max(least(r.at, now_ms)) FILTER (WHERE r.events > 0) OVER (ORDER BY r.no)) AS at
      FROM unnest(received, counts) WITH ORDINALITY AS r(at, events, no)) t;
  INSERT INTO ingest.batches (project, id, seq, received_at, events, body)
    SELECT project, first_id + b.no - 1, base + row_number() OVER (ORDER BY b.no), b.at, b.events, b.body
    FROM unnest(received, counts, bodies) WITH ORDINALITY AS b(at, events, body, no)
    WHERE b.events > 0;

  IF cardinality(builds) > 0 THEN
    SELECT array_agg(n.build_id) INTO open_builds
      FROM unnest(builds) AS n(build_id)
      WHERE NOT EXISTS (SELECT 1 FROM ingest.builds b
        WHERE b.project = project AND b.build_id = n.build_id AND b.frozen_at IS NOT NULL);
    IF open_builds IS NOT NULL THEN
      WITH freezes AS (
        SELECT builds[e.build_no] AS build_id, min(received[e.batch_no + 1]) AS at
          FROM unnest(build_nos, batch_nos) WITH ORDINALITY AS e(build_no, batch_no, no)
          WHERE e.build_no > 0 AND builds[e.build_no] = ANY (open_builds) AND (fresh IS NULL OR e.no = ANY (fresh))
          GROUP BY 1),
      frozen_builds AS (
        INSERT INTO ingest.builds AS b (project, build_id, frozen_at)
          SELECT project, f.build_id, f.at FROM freezes f ORDER BY f.build_id COLLATE "C"
        ON CONFLICT ON CONSTRAINT builds_pkey DO UPDATE SET frozen_at = excluded.frozen_at WHERE b.frozen_at IS NULL
        RETURNING b.build_id)
      SELECT array_agg(f.build_id) INTO frozen FROM frozen_builds f;
    END IF;
  END IF;
END $$;

-- For each batch, how many events differ from the event that another call stored under their key, at `stored_batches`
-- and `stored_idxs`. Null if no event differs.
CREATE FUNCTION ingest.count_conflicts_1(
  project int, first_id bigint, bodies text[], batch_nos int[], stored_batches bigint[], stored_idxs smallint[])
RETURNS int[] LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  -- a whole batch that was sent again has no conflicts: its bytes are those of a stored batch
  IF NOT EXISTS (
    SELECT FROM (
      SELECT e.batch_no, min(e.stored_batch) AS stored_batch
      FROM unnest(batch_nos, stored_batches) AS e(batch_no, stored_batch)
      WHERE e.stored_batch < first_id OR e.stored_batch >= first_id + cardinality(bodies)
      GROUP BY e.batch_no) e
    WHERE NOT EXISTS (
      SELECT FROM ingest.batches b
      WHERE b.project = project AND b.id = e.stored_batch AND b.body = bodies[e.batch_no + 1]))
  THEN
    RETURN NULL;
  END IF;
  RETURN (
    WITH given AS (
      SELECT e.event, e.batch_no, e.stored_batch, e.stored_idx
      FROM ROWS FROM (
        string_to_table(array_to_string(bodies, E'\x1e'), E'\x1e'),
        unnest(batch_nos), unnest(stored_batches), unnest(stored_idxs)) AS e(event, batch_no, stored_batch, stored_idx)
      WHERE e.stored_batch < first_id OR e.stored_batch >= first_id + cardinality(bodies)),
    -- each batch is split once
    stored AS MATERIALIZED (
      SELECT b.id, x.no - 1 AS idx, x.event
      FROM ingest.batches b, string_to_table(b.body, E'\x1e') WITH ORDINALITY AS x(event, no)
      WHERE b.project = project AND b.id = ANY (stored_batches)),
    different AS (
      SELECT g.batch_no, count(*)::int AS events
      FROM given g JOIN stored s ON s.id = g.stored_batch AND s.idx = g.stored_idx
      -- a tombstone differs from nothing
      WHERE s.event <> g.event AND s.event LIKE '{%' AND g.event LIKE '{%'
      GROUP BY g.batch_no)
    SELECT array_agg(coalesce(d.events, 0) ORDER BY b.no)
    FROM generate_subscripts(bodies, 1) AS b(no) LEFT JOIN different d ON d.batch_no = b.no - 1);
END $$;

-- The numbers (from 0) of the keys that are stored. Their events are acknowledged as duplicates.
CREATE FUNCTION ingest.known_1(project int, keys bytea[]) RETURNS SETOF int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
#variable_conflict use_variable
BEGIN
  RETURN QUERY
    SELECT e.no::int - 1
    FROM unnest(keys) WITH ORDINALITY AS e(key, no),
      LATERAL (SELECT FROM ingest.event_keys k WHERE k.project = project AND k.key = e.key LIMIT 1) k;
  IF FOUND THEN
    PERFORM ingest.require_durability_1();
    PERFORM ingest.await_standby_1();
  END IF;
END $$;
