-- name: map-slot
SELECT b.frozen_at, s.version, s.complete, s.complete_head, s.complete_chunks, s.published_at,
  s.pending, s.pending_head, s.pending_chunks, s.touched_at, s.missing,
  (
    SELECT string_agg(CASE WHEN EXISTS (
      SELECT FROM ingest.chunks c WHERE c.project = $1::int AND c.digest = d.digest OFFSET 0
    ) THEN '1' ELSE '0' END, '' ORDER BY d.no)
    FROM unnest($4::bytea[]) WITH ORDINALITY AS d(digest, no)
  ) AS present
FROM (SELECT $1::int AS project, $2::text AS build_id, $3::bytea AS place_id) k
LEFT JOIN ingest.builds b ON b.project = k.project AND b.build_id = k.build_id
LEFT JOIN ingest.map_slots s ON s.project = k.project AND s.build_id = k.build_id AND s.place_id = k.place_id

-- name: maps
-- the build, the place and the map to begin after are null if not given
SELECT s.frozen_at, s.build_id, s.place_id, s.complete_head, s.complete_chunks, s.published_at,
  s.pending_head, s.pending_chunks, s.touched_at, s.missing
FROM (
  SELECT m.project, m.build_id, m.place_id
  FROM ingest.maps m
  WHERE m.project = $1::int
    AND ($2::text IS NULL OR m.build_id = $2)
    AND ($3::bytea IS NULL OR m.place_id = $3)
    AND ($4::text IS NULL OR m.build_id >= $4 AND (m.build_id, m.place_id) > ($4, $5::bytea))
  ORDER BY m.build_id, m.place_id
  LIMIT $6::int
) k
JOIN ingest.map_slots s ON s.project = k.project AND s.build_id = k.build_id AND s.place_id = k.place_id
ORDER BY k.build_id, k.place_id

-- name: builds
-- the builds before a time and id, among the newest $6; `search` is '' for all
SELECT b.build_id, b.frozen_at, m.maps
FROM (
  SELECT b.project, b.build_id, b.frozen_at, coalesce(b.frozen_at, 9223372036854775806) AS at
  FROM ingest.builds b
  WHERE b.project = $1::int AND (coalesce(b.frozen_at, 9223372036854775806), b.build_id) < ($2::bigint, $3::text)
  ORDER BY coalesce(b.frozen_at, 9223372036854775806) DESC, b.build_id DESC
  LIMIT $6::int
) b
CROSS JOIN LATERAL (
  SELECT count(*)::int AS maps FROM ingest.maps m WHERE m.project = b.project AND m.build_id = b.build_id
) m
WHERE position($4::text IN lower(b.build_id)) > 0 AND (b.frozen_at IS NOT NULL OR m.maps > 0)
ORDER BY b.at DESC, b.build_id DESC
LIMIT $5::int

-- name: build-at
-- the $4th build of the same list
SELECT b.build_id, b.frozen_at
FROM ingest.builds b
WHERE b.project = $1::int AND (coalesce(b.frozen_at, 9223372036854775806), b.build_id) < ($2::bigint, $3::text)
ORDER BY coalesce(b.frozen_at, 9223372036854775806) DESC, b.build_id DESC
OFFSET $4::int - 1 LIMIT 1

-- name: put-map
SELECT ingest.put_map_1(
  $1::int, $2, $3, $4::uuid, $5::uuid, $6::bigint, $7, $8, $9::uuid, $10::bigint, $11::uuid, $12::bigint,
  $13::uuid[], $14::text[], $15, $16::bigint[], $17, $18) AS outcome

-- name: put-chunk
SELECT outcome, builds, places
FROM ingest.put_chunk_1($1::int, $2, $3, $4::bigint, $5::int)

-- name: chunk
SELECT c.body FROM ingest.chunks c WHERE c.project = $1::int AND c.digest = $2::bytea

-- name: pending-totals
SELECT count(*)::int AS maps, coalesce(sum(p.bytes) FILTER (WHERE b.frozen_at IS NULL), 0)::bigint AS bytes
FROM ingest.maps m
CROSS JOIN LATERAL (
  SELECT b.frozen_at FROM ingest.builds b WHERE b.project = m.project AND b.build_id = m.build_id OFFSET 0
) b
CROSS JOIN LATERAL (
  SELECT p.bytes FROM ingest.manifests p WHERE p.project = m.project AND p.manifest = m.pending OFFSET 0
) p
WHERE m.project = $1::int AND m.pending IS NOT NULL

-- name: maps-to-sweep
-- administration: crosses projects
-- The next maps with a pending manifest, and whether it is expired or void.
SELECT m.project, m.build_id, m.place_id, (
  SELECT CASE WHEN b.frozen_at IS NOT NULL THEN m.complete IS NOT NULL ELSE (
    SELECT p.touched_at < $1::bigint FROM ingest.manifests p WHERE p.project = m.project AND p.manifest = m.pending
  ) END
  FROM ingest.builds b WHERE b.project = m.project AND b.build_id = m.build_id
) AS unneeded
FROM ingest.maps m
WHERE m.pending IS NOT NULL AND (m.project, m.build_id, m.place_id) > ($2::int, $3::text, $4::bytea)
ORDER BY m.project, m.build_id, m.place_id
LIMIT $5::int

-- name: sweep-map
SELECT ingest.sweep_map_1($1::int, $2, $3, $4::bigint)
