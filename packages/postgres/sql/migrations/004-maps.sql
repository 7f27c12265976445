-- Maps, their manifests and chunks.
--
-- A manifest has up to 11,155 chunks. The statements must find them by index whatever the statistics say: they select by
-- `= ANY (array)`, and subqueries with OFFSET 0 are not turned into joins.

-- The row that functions lock to change the maps of a project, after its builds. `pending_bytes`: the bytes of manifests
-- that are not kept, and the sizes of stored chunks that no kept manifest names.
CREATE TABLE ingest.map_totals (
  project int PRIMARY KEY,
  pending_bytes bigint NOT NULL
) WITH (fillfactor = 10);

-- `place_id` is UTF-8, as PostgreSQL's text cannot hold U+0000. `version` is a random id of the last write; `complete` and
-- `pending` are manifests. A map without either has no row.
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

-- `head` is JSON without the chunks; `chunks` has 32 bytes of the digest and 4 of the size for each; `bytes` is what the
-- manifest adds to the pending bytes unless it is `kept`: complete, or pinned by a freeze. `missing` is the number of
-- distinct chunks that are not stored, null once the map is complete. Chunks arriving must not change an indexed value,
-- so that an update stays on its page (HOT).
CREATE TABLE ingest.manifests (
  project int NOT NULL,
  manifest uuid NOT NULL,
  build_id text COLLATE "C" NOT NULL,
  place_id bytea NOT NULL,
  head text NOT NULL,
  chunks bytea NOT NULL,
  bytes bigint NOT NULL,
  kept boolean NOT NULL,
  missing int,
  ready boolean GENERATED ALWAYS AS (missing = 0) STORED,
  touched_at bigint,
  PRIMARY KEY (project, manifest)
) WITH (fillfactor = 80);
ALTER TABLE ingest.manifests ALTER COLUMN chunks SET STORAGE EXTERNAL;
CREATE INDEX manifests_ready ON ingest.manifests (project) WHERE ready;
CREATE INDEX manifests_unkept ON ingest.manifests (project) WHERE NOT kept;

-- Which manifests name a chunk.
CREATE TABLE ingest.map_chunks (
  project int NOT NULL,
  digest bytea NOT NULL,
  manifest uuid NOT NULL,
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

-- The digests in `chunks` of a manifest, in their order. Its setting keeps it from being inlined: the rows of sorts and
-- joins would each have all of `chunks`.
CREATE FUNCTION ingest.chunk_digests_1(chunks bytea) RETURNS TABLE (digest bytea, no int)
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
  -- the concatenation reads the stored value once, not once for each digest
  SELECT substring(l.list FROM n * 36 + 1 FOR 32), n
  FROM (SELECT $1 || ''::bytea AS list OFFSET 0) l, generate_series(0, octet_length(l.list) / 36 - 1) n
$$;

-- What a store reads of each map. `missing` has a 1 for each chunk of the pending manifest that is not stored, else a 0;
-- null if none is missing.
CREATE VIEW ingest.map_slots AS
  SELECT m.project, m.build_id, m.place_id, m.version,
    m.complete, c.head AS complete_head, c.chunks AS complete_chunks, m.published_at,
    m.pending, p.head AS pending_head, p.chunks AS pending_chunks, p.touched_at,
    CASE WHEN p.missing > 0 THEN (
      SELECT string_agg(CASE WHEN EXISTS (
        SELECT FROM ingest.chunks s WHERE s.project = m.project AND s.digest = d.digest OFFSET 0
      ) THEN '0' ELSE '1' END, '' ORDER BY d.no)
      FROM ingest.chunk_digests_1(p.chunks) d
    ) END AS missing
  FROM ingest.maps m
  LEFT JOIN ingest.manifests c ON c.project = m.project AND c.manifest = m.complete
  LEFT JOIN ingest.manifests p ON p.project = m.project AND p.manifest = m.pending;

-- Locks the maps of a project; returns its pending bytes.
CREATE FUNCTION ingest.lock_maps_1(project int) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  pending_bytes bigint;
BEGIN
  LOOP
    SELECT t.pending_bytes INTO pending_bytes FROM ingest.map_totals t WHERE t.project = project FOR NO KEY UPDATE;
    IF FOUND THEN RETURN pending_bytes; END IF;
    INSERT INTO ingest.map_totals (project, pending_bytes) VALUES (project, 0) ON CONFLICT DO NOTHING;
  END LOOP;
END $$;

-- The part of the pending bytes that these chunks and manifests are.
CREATE FUNCTION ingest.pending_bytes_of_1(project int, digests bytea[], manifests uuid[]) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT (
    SELECT coalesce(sum(c.size), 0)
    FROM ingest.chunks c
    WHERE c.project = $1 AND c.digest = ANY ($2) AND NOT EXISTS (
      SELECT FROM ingest.map_chunks n
      WHERE n.project = $1 AND n.digest = c.digest
        AND (SELECT m.kept FROM ingest.manifests m WHERE m.project = $1 AND m.manifest = n.manifest)
      OFFSET 0)
  ) + (
    SELECT coalesce(sum(m.bytes), 0) FROM ingest.manifests m
    WHERE m.project = $1 AND m.manifest = ANY ($3) AND NOT m.kept
  );
$$;

-- Records in pending manifests that these chunks were stored; `at`, unless it is null, is when that touched them.
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

-- Drops and pins pending manifests of these builds.
CREATE FUNCTION ingest.end_pending_1(project int, builds text[], dropped uuid[], pinned uuid[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  bytes_left bigint := ingest.lock_maps_1(project);
  manifests uuid[] := dropped || pinned;
  digests bytea[] := ingest.digests_of_1(project, manifests);
BEGIN
  bytes_left := bytes_left - ingest.pending_bytes_of_1(project, digests, manifests);
  UPDATE ingest.manifests m SET kept = true WHERE m.project = project AND m.manifest = ANY (pinned);
  DELETE FROM ingest.maps m
    WHERE m.project = project AND m.build_id = ANY (builds) AND m.pending = ANY (dropped) AND m.complete IS NULL;
  UPDATE ingest.maps m SET pending = NULL, version = gen_random_uuid()
    WHERE m.project = project AND m.build_id = ANY (builds) AND m.pending = ANY (dropped);
  PERFORM ingest.delete_manifests_1(project, dropped);
  UPDATE ingest.map_totals t
    SET pending_bytes = bytes_left + ingest.pending_bytes_of_1(project, digests, manifests)
    WHERE t.project = project;
END $$;

-- Applies the freeze of builds, whose rows are locked, to their maps: pending replacements of complete maps are void, and
-- first maps are pinned.
CREATE FUNCTION ingest.freeze_maps_1(project int, builds text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  dropped uuid[];
  pinned uuid[];
BEGIN
  -- most builds have none, and no other transaction can add one now
  PERFORM FROM ingest.maps m WHERE m.project = project AND m.build_id = ANY (builds) AND m.pending IS NOT NULL;
  IF NOT FOUND THEN RETURN; END IF;
  PERFORM ingest.lock_maps_1(project);
  SELECT coalesce(array_agg(m.pending) FILTER (WHERE m.complete IS NOT NULL), '{}'),
    coalesce(array_agg(m.pending) FILTER (WHERE m.complete IS NULL), '{}')
    INTO dropped, pinned
    FROM ingest.maps m
    WHERE m.project = project AND m.build_id = ANY (builds) AND m.pending IS NOT NULL;
  PERFORM ingest.end_pending_1(project, builds, dropped, pinned);
END $$;

-- Drops pending manifests of open builds that were last touched before this time: so many that a call is short. Returns
-- how many.
CREATE FUNCTION ingest.expire_pending_1(project int, touched_before bigint) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
#variable_conflict use_variable
DECLARE
  builds text[];
  expired uuid[];
BEGIN
  PERFORM ingest.require_durability_1();
  PERFORM ingest.lock_maps_1(project);
  SELECT array_agg(m.build_id), array_agg(m.manifest) INTO builds, expired
    FROM (
      SELECT p.build_id, p.manifest, sum(octet_length(p.chunks)) OVER (ORDER BY p.manifest) - octet_length(p.chunks) AS before
      FROM (
        SELECT e.build_id, e.manifest, e.chunks FROM ingest.manifests e
        WHERE e.project = project AND NOT e.kept AND e.touched_at < touched_before
        LIMIT 256) p) m
    WHERE m.before < 500000;
  IF expired IS NULL THEN RETURN 0; END IF;
  PERFORM ingest.end_pending_1(project, builds, expired, '{}');
  RETURN cardinality(expired);
END $$;

-- Writes a map if nothing has changed since it was read: its version is `before` (null without a row), its build froze at
-- `frozen` (null while it is open), all of the chunks `present` are stored and none of `absent`.
--
-- `complete` and `pending` are the manifests that it then has, of those it had and of the new ones, which are `manifests`
-- with their `heads`, `chunk_lists` and `sizes` (in pending bytes). Uploads that no manifest names are not stored.
--
-- `outcome` is `written`, also for a repeated call; `changed`; or `refused`, with the pending bytes of the project, if the
-- write would raise them above `pending_bytes_max`.
CREATE FUNCTION ingest.put_map_1(
  project int, build text, place bytea, before uuid, after uuid, frozen bigint, present bytea[], absent bytea[],
  complete uuid, published_at bigint, pending uuid, touched_at bigint,
  manifests uuid[], heads text[], chunk_lists bytea[], sizes bigint[],
  upload_digests bytea[], uploads bytea[], pending_bytes_max bigint,
  OUT outcome text, OUT bytes_before bigint, OUT bytes_after bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
#variable_conflict use_variable
DECLARE
  frozen_at bigint;
  map record;
BEGIN
  PERFORM ingest.require_durability_1();
  outcome := 'changed';
  IF NOT EXISTS (SELECT FROM ingest.projects p WHERE p.project = project) THEN RETURN; END IF;
  INSERT INTO ingest.builds AS b (project, build_id) VALUES (project, build)
    ON CONFLICT ON CONSTRAINT builds_pkey DO UPDATE SET frozen_at = b.frozen_at
    RETURNING b.frozen_at INTO frozen_at;
  bytes_before := ingest.lock_maps_1(project);
  SELECT m.version, m.complete, m.pending INTO map
    FROM ingest.maps m WHERE m.project = project AND m.build_id = build AND m.place_id = place;
  IF map.version = after THEN
    PERFORM ingest.await_standby_1();
    outcome := 'written';
    RETURN;
  END IF;
  IF map.version IS DISTINCT FROM before OR frozen_at IS DISTINCT FROM frozen
    OR ingest.count_chunks_1(project, present) < cardinality(present)
    OR ingest.count_chunks_1(project, absent) > 0
  THEN
    RETURN;
  END IF;
  BEGIN
    bytes_after := bytes_before + ingest.replace_manifests_1(
      project, build, place, ARRAY[map.complete, map.pending], complete, pending, touched_at, frozen_at IS NOT NULL,
      manifests, heads, chunk_lists, sizes, upload_digests, uploads);
    IF bytes_after > bytes_before AND bytes_after > pending_bytes_max THEN
      RAISE EXCEPTION USING ERRCODE = 'IG002';
    END IF;
    IF complete IS NULL AND pending IS NULL THEN
      DELETE FROM ingest.maps m WHERE m.project = project AND m.build_id = build AND m.place_id = place;
    ELSE
      INSERT INTO ingest.maps (project, build_id, place_id, version, complete, published_at, pending)
        VALUES (project, build, place, after, complete, published_at, pending)
        ON CONFLICT ON CONSTRAINT maps_pkey DO UPDATE SET version = excluded.version,
          complete = excluded.complete, published_at = excluded.published_at, pending = excluded.pending;
    END IF;
    UPDATE ingest.map_totals t SET pending_bytes = bytes_after WHERE t.project = project;
    outcome := 'written';
  EXCEPTION WHEN SQLSTATE 'IG002' THEN
    outcome := 'refused';
  END;
END $$;

CREATE FUNCTION ingest.count_chunks_1(project int, digests bytea[]) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT count(*) FROM ingest.chunks c WHERE c.project = $1 AND c.digest = ANY ($2);
$$;

-- Replaces the manifests `old` of a map, and stores chunks that are named then. Returns the change of the pending bytes.
CREATE FUNCTION ingest.replace_manifests_1(
  project int, build text, place bytea, old uuid[], complete uuid, pending uuid, touched_at bigint, is_frozen boolean,
  manifests uuid[], heads text[], chunk_lists bytea[], sizes bigint[], upload_digests bytea[], uploads bytea[])
RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  is_pinned boolean := is_frozen AND complete IS NULL;
  removed uuid[];
  changed uuid[];
  digests bytea[];
  named bytea[];
  stored bytea[];
  missing int;
  bytes_before bigint;
BEGIN
  SELECT coalesce(array_agg(m.manifest) FILTER (WHERE m.is_removed), '{}'), coalesce(array_agg(m.manifest), '{}')
    INTO removed, changed
    FROM (
      SELECT o.manifest, o.kept,
        (o.manifest = complete) IS NOT TRUE AND (o.manifest = pending) IS NOT TRUE AS is_removed
      FROM ingest.manifests o WHERE o.project = project AND o.manifest = ANY (old)) m
    WHERE m.is_removed OR m.kept <> (coalesce(m.manifest = complete, false) OR is_pinned);
  INSERT INTO ingest.manifests (project, manifest, build_id, place_id, head, chunks, bytes, kept)
    SELECT project, n.manifest, build, place, n.head, n.chunks, n.bytes, false
    FROM unnest(manifests, heads, chunk_lists, sizes) AS n(manifest, head, chunks, bytes);
  INSERT INTO ingest.map_chunks (project, digest, manifest)
    SELECT DISTINCT project, d.digest, n.manifest
    FROM unnest(manifests, chunk_lists) AS n(manifest, chunks), ingest.chunk_digests_1(n.chunks) d;
  digests := ingest.digests_of_1(project, changed || manifests) || upload_digests;
  bytes_before := ingest.pending_bytes_of_1(project, digests, changed);

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
    SET kept = true, missing = NULL, touched_at = NULL
    WHERE m.project = project AND m.manifest = complete AND (NOT m.kept OR m.missing IS NOT NULL);
  IF pending = ANY (manifests) THEN
    named := ingest.digests_of_1(project, ARRAY[pending]);
    missing := cardinality(named) - ingest.count_chunks_1(project, named);
  END IF;
  UPDATE ingest.manifests m
    SET kept = is_pinned, touched_at = replace_manifests_1.touched_at, missing = coalesce(missing, m.missing)
    WHERE m.project = project AND m.manifest = pending;
  PERFORM ingest.delete_manifests_1(project, removed);
  RETURN ingest.pending_bytes_of_1(project, digests, changed || manifests) - bytes_before;
END $$;

-- Why a chunk is not to be stored; null if it is missing.
CREATE FUNCTION ingest.chunk_outcome_1(project int, digest bytea) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE
    WHEN EXISTS (SELECT FROM ingest.chunks c WHERE c.project = $1 AND c.digest = $2) THEN 'existing'
    WHEN NOT EXISTS (SELECT FROM ingest.map_chunks n WHERE n.project = $1 AND n.digest = $2) THEN 'undeclared'
  END;
$$;

-- Stores a chunk that a manifest of the project names. `outcome` is `stored`, `existing`, `undeclared`; or `refused`, with
-- the pending bytes, as in put_map_1. `builds` and `places` are up to `ready_max` maps whose pending manifests miss no
-- chunk: those that name this one first.
CREATE FUNCTION ingest.put_chunk_1(
  project int, digest bytea, body bytea, received_at bigint, pending_bytes_max bigint, ready_max int,
  OUT outcome text, OUT bytes_before bigint, OUT bytes_after bigint, OUT builds text[], OUT places bytea[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
#variable_conflict use_variable
BEGIN
  PERFORM ingest.require_durability_1();
  builds := '{}';
  places := '{}';
  outcome := ingest.chunk_outcome_1(project, digest);
  IF outcome IS NULL THEN
    bytes_before := ingest.lock_maps_1(project);
    -- it may have been stored, or its map replaced, before the lock was granted
    outcome := ingest.chunk_outcome_1(project, digest);
  END IF;
  IF outcome IS NULL THEN
    bytes_after := bytes_before + CASE WHEN EXISTS (
        SELECT FROM ingest.map_chunks n
        WHERE n.project = project AND n.digest = digest
          AND (SELECT m.kept FROM ingest.manifests m WHERE m.project = project AND m.manifest = n.manifest)
      ) THEN 0 ELSE octet_length(body) END;
    IF bytes_after > bytes_before AND bytes_after > pending_bytes_max THEN
      outcome := 'refused';
    ELSE
      INSERT INTO ingest.chunks (project, digest, size, body) VALUES (project, digest, octet_length(body), body);
      UPDATE ingest.map_totals t SET pending_bytes = bytes_after WHERE t.project = project;
      PERFORM ingest.resolve_missing_1(project, ARRAY[digest], received_at);
      outcome := 'stored';
    END IF;
  END IF;
  IF outcome NOT IN ('stored', 'existing') THEN RETURN; END IF;
  IF outcome = 'existing' AND ingest.has_standby_1() THEN
    PERFORM ingest.lock_maps_1(project);
    PERFORM ingest.await_standby_1();
  END IF;
  SELECT coalesce(array_agg(r.build_id), '{}'), coalesce(array_agg(r.place_id), '{}') INTO builds, places
    FROM (
      SELECT m.build_id, m.place_id FROM ingest.manifests m
      WHERE m.project = project AND m.ready
      ORDER BY EXISTS (
        SELECT FROM ingest.map_chunks n WHERE n.project = project AND n.digest = digest AND n.manifest = m.manifest
      ) DESC
      LIMIT ready_max) r;
END $$;
