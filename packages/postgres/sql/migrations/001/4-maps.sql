-- Maps, their manifests and chunks.
--
-- A manifest has up to 11,155 chunks. The statements must find them by index whatever the statistics say: they select
-- by `= ANY (array)`, and subqueries with OFFSET 0 are not turned into joins.

-- The row that functions lock to change the maps of a project, after its builds.
CREATE TABLE ingest.map_locks (
  project int PRIMARY KEY
);

-- `place_id` is UTF-8, as PostgreSQL's text cannot hold U+0000. `version` is a random id of the last write; `complete`
-- and `pending` are manifests. A map without either has no row. A freeze changes nothing here: it voids the pending
-- manifest of a map that is complete.
CREATE TABLE ingest.maps (
  project int NOT NULL,
  build_id text COLLATE "C" NOT NULL,
  place_id bytea NOT NULL,
  version uuid NOT NULL,
  complete uuid,
  published_at bigint,
  pending uuid,
  PRIMARY KEY (project, build_id, place_id)
);
CREATE INDEX maps_by_place ON ingest.maps (project, place_id, build_id);
CREATE INDEX maps_pending ON ingest.maps (project, build_id, place_id) WHERE pending IS NOT NULL;

-- `head` is JSON without the chunks; `chunks` has 32 bytes of the digest and 4 of the size for each; `bytes` is what
-- the manifest adds to the pending bytes of its project while its build is open. `missing` is the number of distinct
-- chunks that are not stored, null once the map is complete. Chunks arriving must not change an indexed value, so that
-- an update stays on its page (HOT).
CREATE TABLE ingest.manifests (
  project int NOT NULL,
  manifest uuid NOT NULL,
  build_id text COLLATE "C" NOT NULL,
  place_id bytea NOT NULL,
  head text NOT NULL,
  chunks bytea NOT NULL,
  bytes bigint NOT NULL,
  missing int,
  ready boolean GENERATED ALWAYS AS (missing = 0) STORED,
  touched_at bigint,
  PRIMARY KEY (project, manifest)
) WITH (fillfactor = 80);
ALTER TABLE ingest.manifests ALTER COLUMN chunks SET STORAGE EXTERNAL;
CREATE INDEX manifests_ready ON ingest.manifests (project) WHERE ready;

-- Which manifests name a chunk, and the size that they give.
CREATE TABLE ingest.map_chunks (
  project int NOT NULL,
  digest bytea NOT NULL,
  manifest uuid NOT NULL,
  size int NOT NULL,
  PRIMARY KEY (project, digest, manifest)
);

CREATE TABLE ingest.chunks (
  project int NOT NULL,
  digest bytea NOT NULL,
  size int NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (project, digest)
);
ALTER TABLE ingest.chunks ALTER COLUMN body SET STORAGE EXTERNAL;

-- The digests and sizes in `chunks` of a manifest, in their order. Its setting keeps it from being inlined: the rows of
-- sorts and joins would each have all of `chunks`.
CREATE FUNCTION ingest.chunk_digests_1(chunks bytea) RETURNS TABLE (digest bytea, size int, no int)
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
  -- the concatenation reads the stored value once, not once for each digest
  SELECT substring(l.list FROM n * 36 + 1 FOR 32),
    (get_byte(l.list, n * 36 + 32) << 24) + (get_byte(l.list, n * 36 + 33) << 16)
      + (get_byte(l.list, n * 36 + 34) << 8) + get_byte(l.list, n * 36 + 35), n
  FROM (SELECT $1 || ''::bytea AS list OFFSET 0) l, generate_series(0, octet_length(l.list) / 36 - 1) n
$$;

-- Each map as a store reads it, without manifests that a freeze has made void. `missing` has a 1 for each chunk of the
-- pending manifest that is not stored, else a 0; null if none is missing.
CREATE VIEW ingest.map_slots AS
  SELECT m.project, m.build_id, m.place_id, m.version, b.frozen_at,
    m.complete, c.head AS complete_head, c.chunks AS complete_chunks, m.published_at,
    p.manifest AS pending, p.head AS pending_head, p.chunks AS pending_chunks, p.touched_at,
    CASE WHEN p.missing > 0 THEN (
      SELECT string_agg(CASE WHEN EXISTS (
        SELECT FROM ingest.chunks s WHERE s.project = m.project AND s.digest = d.digest OFFSET 0
      ) THEN '0' ELSE '1' END, '' ORDER BY d.no)
      FROM ingest.chunk_digests_1(p.chunks) d
    ) END AS missing
  FROM ingest.maps m
  JOIN ingest.builds b ON b.project = m.project AND b.build_id = m.build_id
  LEFT JOIN ingest.manifests c ON c.project = m.project AND c.manifest = m.complete
  LEFT JOIN ingest.manifests p ON p.project = m.project AND p.manifest = m.pending
    AND (b.frozen_at IS NULL OR m.complete IS NULL);

-- Locks the maps of a project.
CREATE FUNCTION ingest.lock_maps_1(project int) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  LOOP
    PERFORM FROM ingest.map_locks l WHERE l.project = project FOR NO KEY UPDATE;
    IF FOUND THEN RETURN; END IF;
    INSERT INTO ingest.map_locks (project) VALUES (project) ON CONFLICT DO NOTHING;
  END LOOP;
END $$;

-- Records in pending manifests that these chunks were stored; `at`, unless it is null, becomes the time of their last
-- touch.
CREATE FUNCTION ingest.resolve_missing_1(project int, digests bytea[], at bigint) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  UPDATE ingest.manifests m
    SET touched_at = coalesce($3, m.touched_at),
      missing = m.missing - (
        SELECT count(*) FROM ingest.map_chunks n
        WHERE n.project = $1 AND n.digest = ANY ($2) AND n.manifest = m.manifest)
    WHERE m.project = $1 AND m.missing IS NOT NULL
      AND m.manifest = ANY (ARRAY(
        SELECT n.manifest FROM ingest.map_chunks n WHERE n.project = $1 AND n.digest = ANY ($2)));
$$;

-- The distinct digests of manifests.
CREATE FUNCTION ingest.digests_of_1(project int, manifests uuid[]) RETURNS bytea[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(array_agg(DISTINCT d.digest), '{}')
  FROM ingest.manifests m, ingest.chunk_digests_1(m.chunks) d
  WHERE m.project = $1 AND m.manifest = ANY ($2);
$$;

-- Deletes manifests, and those of their chunks that no other manifest names.
CREATE FUNCTION ingest.delete_manifests_1(project int, manifests uuid[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  manifest uuid;
  digests bytea[];
BEGIN
  FOREACH manifest IN ARRAY manifests LOOP
    digests := ingest.digests_of_1(project, ARRAY[manifest]);
    DELETE FROM ingest.map_chunks n
      WHERE n.project = project AND n.digest = ANY (digests) AND n.manifest = manifest;
    DELETE FROM ingest.chunks c
      WHERE c.project = project AND c.digest = ANY (digests)
        AND NOT EXISTS (SELECT FROM ingest.map_chunks n WHERE n.project = project AND n.digest = c.digest OFFSET 0);
    DELETE FROM ingest.manifests m WHERE m.project = project AND m.manifest = manifest;
  END LOOP;
END $$;

-- Drops the pending manifest of a map if it is void, or if its build is open and it was last touched before this time.
CREATE FUNCTION ingest.sweep_map_1(project int, build text, place bytea, touched_before bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
#variable_conflict use_variable
DECLARE
  frozen_at bigint;
  map record;
BEGIN
  PERFORM ingest.require_durability_1();
  SELECT b.frozen_at INTO frozen_at
    FROM ingest.builds b WHERE b.project = project AND b.build_id = build FOR NO KEY UPDATE;
  PERFORM ingest.lock_maps_1(project);
  SELECT m.complete, m.pending, p.touched_at INTO map
    FROM ingest.maps m JOIN ingest.manifests p ON p.project = m.project AND p.manifest = m.pending
    WHERE m.project = project AND m.build_id = build AND m.place_id = place;
  IF NOT FOUND
    OR frozen_at IS NULL AND map.touched_at >= touched_before
    OR frozen_at IS NOT NULL AND map.complete IS NULL
  THEN
    RETURN;
  END IF;
  IF map.complete IS NULL THEN
    DELETE FROM ingest.maps m WHERE m.project = project AND m.build_id = build AND m.place_id = place;
  ELSE
    UPDATE ingest.maps m SET pending = NULL, version = gen_random_uuid()
      WHERE m.project = project AND m.build_id = build AND m.place_id = place;
  END IF;
  PERFORM ingest.delete_manifests_1(project, ARRAY[map.pending]);
END $$;

-- Writes a map if nothing has changed since it was read: its version is `before` (null without a row), its build froze
-- at `frozen` (null while it is open), all of the chunks `present` are stored and none of `absent`.
--
-- `complete` and `pending` are the manifests that it then has, of those it had and of the new ones, which are
-- `manifests` with their `heads`, `chunk_lists` and `sizes` (declared bytes). Uploads that no manifest names are not
-- stored.
--
-- Returns `written`, also for a repeated call, or `changed`.
CREATE FUNCTION ingest.put_map_1(
  project int, build text, place bytea, before uuid, after uuid, frozen bigint, present bytea[], absent bytea[],
  complete uuid, published_at bigint, pending uuid, touched_at bigint,
  manifests uuid[], heads text[], chunk_lists bytea[], sizes bigint[],
  upload_digests bytea[], uploads bytea[])
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
#variable_conflict use_variable
DECLARE
  frozen_at bigint;
  map record;
BEGIN
  PERFORM ingest.require_durability_1();
  IF NOT EXISTS (SELECT FROM ingest.projects p WHERE p.project = project) THEN RETURN 'changed'; END IF;
  INSERT INTO ingest.builds AS b (project, build_id) VALUES (project, build)
    ON CONFLICT ON CONSTRAINT builds_pkey DO UPDATE SET frozen_at = b.frozen_at
    RETURNING b.frozen_at INTO frozen_at;
  PERFORM ingest.lock_maps_1(project);
  SELECT m.version, m.complete, m.pending INTO map
    FROM ingest.maps m WHERE m.project = project AND m.build_id = build AND m.place_id = place;
  IF map.version = after THEN
    PERFORM ingest.await_standby_1();
    RETURN 'written';
  END IF;
  IF map.version IS DISTINCT FROM before OR frozen_at IS DISTINCT FROM frozen
    OR ingest.count_chunks_1(project, present) < cardinality(present)
    OR ingest.count_chunks_1(project, absent) > 0
  THEN
    RETURN 'changed';
  END IF;
  PERFORM ingest.replace_manifests_1(
    project, build, place, ARRAY[map.complete, map.pending], complete, pending, touched_at,
    manifests, heads, chunk_lists, sizes, upload_digests, uploads);
  IF complete IS NULL AND pending IS NULL THEN
    DELETE FROM ingest.maps m WHERE m.project = project AND m.build_id = build AND m.place_id = place;
  ELSE
    INSERT INTO ingest.maps (project, build_id, place_id, version, complete, published_at, pending)
      VALUES (project, build, place, after, complete, published_at, pending)
      ON CONFLICT ON CONSTRAINT maps_pkey DO UPDATE SET version = excluded.version,
        complete = excluded.complete, published_at = excluded.published_at, pending = excluded.pending;
  END IF;
  RETURN 'written';
END $$;

CREATE FUNCTION ingest.count_chunks_1(project int, digests bytea[]) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT count(*) FROM ingest.chunks c WHERE c.project = $1 AND c.digest = ANY ($2);
$$;

-- Replaces the manifests `old` of a map, and stores chunks that are named then.
CREATE FUNCTION ingest.replace_manifests_1(
  project int, build text, place bytea, old uuid[], complete uuid, pending uuid, touched_at bigint,
  manifests uuid[], heads text[], chunk_lists bytea[], sizes bigint[], upload_digests bytea[], uploads bytea[])
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  removed uuid[];
  named bytea[];
  stored bytea[];
  missing int;
BEGIN
  INSERT INTO ingest.manifests (project, manifest, build_id, place_id, head, chunks, bytes)
    SELECT project, n.manifest, build, place, n.head, n.chunks, n.bytes
    FROM unnest(manifests, heads, chunk_lists, sizes) AS n(manifest, head, chunks, bytes);
  INSERT INTO ingest.map_chunks (project, digest, manifest, size)
    SELECT project, d.digest, n.manifest, max(d.size)
    FROM unnest(manifests, chunk_lists) AS n(manifest, chunks), ingest.chunk_digests_1(n.chunks) d
    GROUP BY d.digest, n.manifest;
  WITH inserted AS (
    INSERT INTO ingest.chunks AS c (project, digest, size, body)
      SELECT project, u.digest, octet_length(u.body), u.body
      FROM unnest(upload_digests, uploads) AS u(digest, body)
      WHERE EXISTS (SELECT FROM ingest.map_chunks n WHERE n.project = project AND n.digest = u.digest OFFSET 0)
    ON CONFLICT DO NOTHING
    RETURNING c.digest)
  SELECT array_agg(i.digest) INTO stored FROM inserted i;
  PERFORM ingest.resolve_missing_1(project, stored, NULL);
  UPDATE ingest.manifests m
    SET missing = NULL, touched_at = NULL
    WHERE m.project = project AND m.manifest = complete AND m.touched_at IS NOT NULL;
  IF pending = ANY (manifests) THEN
    named := ingest.digests_of_1(project, ARRAY[pending]);
    missing := cardinality(named) - ingest.count_chunks_1(project, named);
  END IF;
  UPDATE ingest.manifests m
    SET touched_at = replace_manifests_1.touched_at, missing = coalesce(missing, m.missing)
    WHERE m.project = project AND m.manifest = pending;
  removed := ARRAY(
    SELECT o.manifest FROM unnest(old) AS o(manifest)
    WHERE o.manifest IS NOT NULL AND o.manifest IS DISTINCT FROM complete AND o.manifest IS DISTINCT FROM pending);
  PERFORM ingest.delete_manifests_1(project, removed);
END $$;

-- Why a chunk of this size is not to be stored; null if a pending map misses it.
CREATE FUNCTION ingest.chunk_outcome_1(project int, digest bytea, size int) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE
    WHEN EXISTS (SELECT FROM ingest.chunks c WHERE c.project = $1 AND c.digest = $2) THEN 'existing'
    WHEN NOT EXISTS (
      SELECT FROM ingest.map_chunks n
      JOIN ingest.manifests m ON m.project = n.project AND m.manifest = n.manifest
      JOIN ingest.map_slots s ON s.project = m.project AND s.build_id = m.build_id AND s.place_id = m.place_id
      WHERE n.project = $1 AND n.digest = $2 AND n.size >= $3 AND s.pending = m.manifest
    ) THEN 'undeclared'
  END;
$$;

-- Stores a chunk that a manifest of the project names, with at least its size. `outcome` is `stored`, `existing` or
-- `undeclared`. `builds` and `places` are up to `ready_max` maps whose pending manifests miss no chunk: those that name
-- this one first.
CREATE FUNCTION ingest.put_chunk_1(
  project int, digest bytea, body bytea, received_at bigint, ready_max int,
  OUT outcome text, OUT builds text[], OUT places bytea[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
#variable_conflict use_variable
BEGIN
  PERFORM ingest.require_durability_1();
  builds := '{}';
  places := '{}';
  outcome := ingest.chunk_outcome_1(project, digest, octet_length(body));
  IF outcome IS NULL THEN
    PERFORM ingest.lock_maps_1(project);
    -- it may have been stored, or its map replaced, before the lock was granted
    outcome := ingest.chunk_outcome_1(project, digest, octet_length(body));
  END IF;
  IF outcome IS NULL THEN
    INSERT INTO ingest.chunks (project, digest, size, body) VALUES (project, digest, octet_length(body), body);
    PERFORM ingest.resolve_missing_1(project, ARRAY[digest], received_at);
    outcome := 'stored';
  END IF;
  IF outcome NOT IN ('stored', 'existing') THEN RETURN; END IF;
  IF outcome = 'existing' AND ingest.has_standby_1() THEN
    PERFORM ingest.lock_maps_1(project);
    PERFORM ingest.await_standby_1();
  END IF;
  SELECT coalesce(array_agg(r.build_id), '{}'), coalesce(array_agg(r.place_id), '{}') INTO builds, places
    FROM (
      SELECT m.build_id, m.place_id FROM ingest.manifests m
      WHERE m.project = project AND m.ready AND EXISTS (
        SELECT FROM ingest.map_slots s
        WHERE s.project = project AND s.build_id = m.build_id AND s.place_id = m.place_id AND s.pending = m.manifest
        OFFSET 0)
      ORDER BY EXISTS (
        SELECT FROM ingest.map_chunks n WHERE n.project = project AND n.digest = digest AND n.manifest = m.manifest
      ) DESC
      LIMIT ready_max) r;
END $$;
