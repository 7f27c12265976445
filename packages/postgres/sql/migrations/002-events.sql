-- The log and the ids of events.

-- The id of each event ever stored: 0x01 and 16 bytes for a UUID in lower case, else 0x02 and its UTF-8.
CREATE TABLE ingest.event_keys (
  project int NOT NULL,
  key bytea NOT NULL,
  batch bigint NOT NULL,
  idx smallint NOT NULL,
  PRIMARY KEY (project, key)
) /*partitions*/;

-- One row for each batch: the exact bytes of its events, joined by U+001E, which JSON cannot contain unescaped. An event
-- that was known before is empty. `seq` grows by 1.
CREATE TABLE ingest.batches (
  project int NOT NULL,
  id bigint NOT NULL,
  seq bigint NOT NULL,
  received_at bigint NOT NULL,
  events int NOT NULL,
  body text NOT NULL,
  PRIMARY KEY (project, id)
);
CREATE UNIQUE INDEX batches_by_seq ON ingest.batches (project, seq);
CREATE INDEX batches_by_time ON ingest.batches (project, received_at, seq);

-- lz4 costs nothing measurable, but not every build of PostgreSQL has it.
DO $$
BEGIN
  ALTER TABLE ingest.batches ALTER COLUMN body SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported OR invalid_parameter_value THEN
  NULL;
END $$;

-- A build with an event is frozen; one without was published to.
CREATE TABLE ingest.builds (
  project int NOT NULL,
  build_id text COLLATE "C" NOT NULL,
  frozen_at bigint,
  PRIMARY KEY (project, build_id)
);

-- Stores batches of one project, and freezes the builds of their new events.
--
-- `first_id`, first_id + 1, … are the ids of the batches; `received` and `bodies` have one element for each batch; `keys`,
-- `batch_nos` (from 0), `idxs` and `build_nos` (into `builds`, 0 for none) one for each event, in the order of the batches.
-- A repeated call with the same ids finds the keys that it stored and returns the same result.
--
-- `fresh` holds the numbers (from 1) of the events that this call stored, or is null if it stored all of them;
-- `conflicts`, by batch, how many events differ from the event that another call stored under their key.
--
-- Locks: keys ascending, head, builds ascending, maps of the project. All functions keep this order.
CREATE FUNCTION ingest.append_1(
  project int, first_id bigint, received bigint[], bodies text[],
  keys bytea[], batch_nos int[], idxs smallint[], build_nos int[], builds text[],
  OUT fresh int[], OUT conflicts int[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '5s' AS $$
#variable_conflict use_variable
DECLARE
  event_count int := cardinality(keys);
  counts int[];
  inserted int;
  batch_count int;
  base bigint;
  now_ms bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint + 1000;
  last bigint;
  open_builds text[];
  frozen text[];
BEGIN
  PERFORM ingest.require_durability_1();
  -- ascending, so that concurrent appends of the same ids wait for each other in one order
  WITH new_keys AS (
    INSERT INTO ingest.event_keys (project, key, batch, idx)
    SELECT project, e.key, first_id + e.batch_no, e.idx
      FROM unnest(keys, batch_nos, idxs) AS e(key, batch_no, idx)
      ORDER BY e.key, e.batch_no
    ON CONFLICT DO NOTHING
    RETURNING 1)
  SELECT count(*) INTO inserted FROM new_keys;

  IF inserted < event_count THEN
    SELECT coalesce(array_agg(e.no::int ORDER BY e.no), '{}') INTO fresh
      FROM unnest(keys, batch_nos, idxs) WITH ORDINALITY AS e(key, batch_no, idx, no)
      JOIN ingest.event_keys k
        ON k.project = project AND k.key = e.key AND k.batch = first_id + e.batch_no AND k.idx = e.idx;
    conflicts := ingest.count_conflicts_1(project, first_id, bodies, keys, batch_nos, idxs);
    -- nothing is new, or this call is repeated
    IF inserted = 0 THEN
      PERFORM ingest.await_standby_1();
      RETURN;
    END IF;
    SELECT array_agg(b.body ORDER BY b.batch_no), array_agg(b.events ORDER BY b.batch_no) INTO bodies, counts
      FROM (
        SELECT e.batch_no, count(f.no)::int AS events,
          string_agg(CASE WHEN f.no IS NULL THEN '' ELSE t.event END, E'\x1e' ORDER BY e.idx) AS body
        FROM unnest(batch_nos, idxs) WITH ORDINALITY AS e(batch_no, idx, no)
        JOIN (
          SELECT b.no - 1 AS batch_no, x.no - 1 AS idx, x.event
          FROM unnest(bodies) WITH ORDINALITY AS b(body, no),
            string_to_table(b.body, E'\x1e') WITH ORDINALITY AS x(event, no)
        ) t ON t.batch_no = e.batch_no AND t.idx = e.idx
        LEFT JOIN unnest(fresh) AS f(no) ON f.no = e.no
        GROUP BY e.batch_no) b;
  ELSE
    SELECT array_agg(c.events ORDER BY c.batch_no) INTO counts
      FROM (SELECT e.batch_no, count(*)::int AS events FROM unnest(batch_nos) AS e(batch_no) GROUP BY e.batch_no) c;
  END IF;

  SELECT count(*) INTO batch_count FROM unnest(counts) AS c(events) WHERE c.events > 0;
  UPDATE ingest.heads h
    SET seq = h.seq + batch_count,
      first_at = coalesce(h.first_at, (SELECT least(r.at, now_ms)
        FROM unnest(received, counts) WITH ORDINALITY AS r(at, events, no) WHERE r.events > 0 ORDER BY r.no LIMIT 1)),
      last_at = greatest(h.last_at, (SELECT least(max(r.at), now_ms)
        FROM unnest(received, counts) AS r(at, events) WHERE r.events > 0)),
      events = h.events + inserted,
      bytes = h.bytes + (SELECT sum(octet_length(b.body)) FROM unnest(bodies, counts) AS b(body, events) WHERE b.events > 0)
    WHERE h.project = project
    RETURNING h.seq - batch_count INTO base;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the project does not exist' USING ERRCODE = 'IG001';
  END IF;
  -- the head is locked: the newest batch is the one before
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
      IF frozen IS NOT NULL THEN PERFORM ingest.freeze_maps_1(project, frozen); END IF;
    END IF;
  END IF;
END $$;

-- For each batch, how many events differ from the event that another call stored under their key.
CREATE FUNCTION ingest.count_conflicts_1(
  project int, first_id bigint, bodies text[], keys bytea[], batch_nos int[], idxs smallint[])
RETURNS int[] LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
  WITH known AS MATERIALIZED (
    SELECT e.batch_no, e.idx, k.batch, k.idx AS stored_idx
    FROM unnest($4, $5, $6) AS e(key, batch_no, idx)
    JOIN ingest.event_keys k ON k.project = $1 AND k.key = e.key
    WHERE k.batch < $2 OR k.batch >= $2 + cardinality($3)),
  -- each batch is split once
  stored AS MATERIALIZED (
    SELECT b.id, x.no - 1 AS idx, x.event
    FROM (SELECT DISTINCT known.batch FROM known) d
    JOIN ingest.batches b ON b.project = $1 AND b.id = d.batch,
      string_to_table(b.body, E'\x1e') WITH ORDINALITY AS x(event, no)),
  given AS MATERIALIZED (
    SELECT b.no - 1 AS batch_no, x.no - 1 AS idx, x.event
    FROM unnest($3) WITH ORDINALITY AS b(body, no),
      string_to_table(b.body, E'\x1e') WITH ORDINALITY AS x(event, no)),
  different AS (
    SELECT known.batch_no FROM known
    JOIN stored ON stored.id = known.batch AND stored.idx = known.stored_idx
    JOIN given ON given.batch_no = known.batch_no AND given.idx = known.idx
    WHERE stored.event <> given.event)
  SELECT array_agg((SELECT count(*)::int FROM different d WHERE d.batch_no = b.no - 1) ORDER BY b.no)
  FROM unnest($3) WITH ORDINALITY AS b(body, no);
$$;
