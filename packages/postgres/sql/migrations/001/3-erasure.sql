-- Erasure: the text of an event in `body` of its batch becomes a tombstone, the JSON string of its id.
--
-- An event is a JSON object, so the first character tells a tombstone from an event. Keys and rows of batches stay. The
-- former text stays on the disk until vacuum has removed the dead rows.

-- One row for each project with erased events. Batches up to `expired`, a `seq`, have no events but tombstones; `call`
-- is the last call of `erase_1`, and `events` and `bytes` its result. `erase_1` locks the row until it commits.
CREATE TABLE ingest.erasures (
  project int PRIMARY KEY,
  expired bigint NOT NULL DEFAULT 0,
  call uuid,
  events int,
  bytes bigint
) WITH (fillfactor = 10);

CREATE FUNCTION ingest.tombstone_1(key bytea) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE get_byte($1, 0)
    WHEN 1 THEN '"' || encode(substring($1 FROM 2), 'hex')::uuid || '"'
    ELSE to_json(convert_from(substring($1 FROM 2), 'UTF8'))::text
  END;
$$;

-- Whether a body has an event that is not a tombstone.
CREATE FUNCTION ingest.has_events_1(body text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT $1 LIKE '{%' OR position(E'\x1e{' IN $1) > 0;
$$;

-- The bytes of a body that count: those of its events, or 0 if it has only tombstones.
CREATE FUNCTION ingest.counted_bytes_1(body text) RETURNS bigint
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE
    WHEN NOT ingest.has_events_1($1) THEN 0
    WHEN $1 NOT LIKE '"%' AND position(E'\x1e"' IN $1) = 0 THEN octet_length($1)
    ELSE (
      SELECT octet_length($1) - sum(octet_length(x.event)) FROM string_to_table($1, E'\x1e') AS x(event)
      WHERE x.event LIKE '"%')
  END;
$$;

-- Erases the events with these keys. A repeated call returns the same result, unless another one came in between.
-- `through`, unless it is null, is a batch up to which this leaves none but tombstones: readers skip them.
--
-- Locks: the row in `erasures`, and last that of the head, so that appends wait for nothing but the commit.
CREATE FUNCTION ingest.erase_1(
  project int, call uuid, keys bytea[], through bigint, OUT events int, OUT bytes bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
#variable_conflict use_variable
DECLARE
  last record;
  batch_ids bigint[];
  idxs smallint[];
  tombstones text[];
BEGIN
  PERFORM ingest.require_durability_1();
  INSERT INTO ingest.erasures AS e (project) VALUES (project) ON CONFLICT DO NOTHING;
  SELECT e.call, e.events, e.bytes, e.expired INTO last
    FROM ingest.erasures e WHERE e.project = project FOR NO KEY UPDATE;
  IF last.call = call THEN
    PERFORM ingest.await_standby_1();
    events := last.events;
    bytes := last.bytes;
    RETURN;
  END IF;
  SELECT array_agg(k.batch), array_agg(k.idx), array_agg(ingest.tombstone_1(e.key))
    INTO batch_ids, idxs, tombstones
    FROM unnest(keys) AS e(key),
      LATERAL (SELECT k.batch, k.idx FROM ingest.event_keys k WHERE k.project = project AND k.key = e.key LIMIT 1) k;
  WITH split AS (
      SELECT b.id, x.no, x.event, g.tombstone
      FROM ingest.batches b CROSS JOIN LATERAL string_to_table(b.body, E'\x1e') WITH ORDINALITY AS x(event, no)
      LEFT JOIN (SELECT DISTINCT * FROM unnest(batch_ids, idxs, tombstones)) AS g(batch, idx, tombstone)
        ON g.batch = b.id AND g.idx = x.no - 1 AND x.event LIKE '{%'
      WHERE b.project = project AND b.id = ANY (batch_ids)),
    changed AS (
      SELECT s.id, count(s.tombstone)::int AS events,
        string_agg(coalesce(s.tombstone, s.event), E'\x1e' ORDER BY s.no) AS body,
        sum(octet_length(s.event)) FILTER (WHERE s.tombstone IS NOT NULL)
          + CASE WHEN bool_or(s.event LIKE '{%' AND s.tombstone IS NULL) THEN 0 ELSE count(*) - 1 END AS bytes
      FROM split s GROUP BY s.id HAVING count(s.tombstone) > 0),
    updated AS (
      UPDATE ingest.batches b SET body = c.body FROM changed c
        WHERE b.project = project AND b.id = ANY (batch_ids) AND b.id = c.id
      RETURNING c.events, c.bytes)
    SELECT coalesce(sum(u.events), 0), coalesce(sum(u.bytes), 0) INTO events, bytes FROM updated u;
  UPDATE ingest.erasures e
    SET call = erase_1.call, events = erase_1.events, bytes = erase_1.bytes,
      expired = CASE WHEN through > e.expired AND NOT EXISTS (
          SELECT FROM ingest.batches b
          WHERE b.project = project AND b.seq > e.expired AND b.seq <= through AND ingest.has_events_1(b.body))
        THEN through ELSE e.expired END
    WHERE e.project = project;
  IF events > 0 THEN
    UPDATE ingest.heads h SET bytes = h.bytes - erase_1.bytes WHERE h.project = project;
  END IF;
END $$;
