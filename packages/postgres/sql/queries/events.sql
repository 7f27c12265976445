-- name: append
SELECT fresh, conflicts, frozen, keys_ms, head_ms FROM ingest.append_1($1::int, $2::bigint, $3::boolean, $4, $5, $6, $7, $8, $9, $10, $11)

-- name: known
SELECT k.index FROM ingest.known_1($1::int, $2) AS k(index)

-- name: find
SELECT b.seq, b.id::text, b.received_at, k.idx, b.body
FROM ingest.event_keys k
JOIN ingest.batches b ON b.project = k.project AND b.id = k.batch
WHERE k.project = $1::int AND k.key = $2::bytea

-- name: batches-from
-- without batches that are known to have only tombstones, unless these are wanted
SELECT b.seq, b.id::text, b.received_at, b.body
FROM ingest.batches b
WHERE b.project = $1::int AND b.seq >= $2::bigint
  AND b.seq > CASE WHEN $4::boolean THEN 0
    ELSE coalesce((SELECT e.expired FROM ingest.erasures e WHERE e.project = $1::int), 0) END
ORDER BY b.seq
LIMIT $3::int

-- name: first-batch-since
SELECT b.seq
FROM ingest.batches b
WHERE b.project = $1::int AND b.received_at >= $2::bigint
ORDER BY b.received_at, b.seq
LIMIT 1

-- name: batches-of
SELECT e.no::int - 1 AS index, k.batch::text
FROM unnest($2::bytea[]) WITH ORDINALITY AS e(key, no),
  LATERAL (SELECT k.batch FROM ingest.event_keys k WHERE k.project = $1::int AND k.key = e.key LIMIT 1) k

-- name: batches-to-expire
SELECT b.seq, b.body
FROM (
  SELECT o.seq, o.received_at, o.body
  FROM ingest.batches o
  WHERE o.project = $1::int
    AND o.seq > coalesce((SELECT e.expired FROM ingest.erasures e WHERE e.project = $1::int), 0)
  ORDER BY o.seq
  LIMIT $3::int
) b
WHERE b.received_at < $2::bigint
ORDER BY b.seq

-- name: erase
SELECT events, bytes FROM ingest.erase_1($1::int, $2::uuid, $3, $4::bigint)

-- name: totals
-- with the last batch and the index of its last event, which is the number of separators before it: after it, the body
-- has only the separators of duplicates. Trims bytes, because rtrim of a text of 256 KiB takes 3 ms
SELECT h.events, h.seq AS batches, h.bytes, h.first_at, h.last_at, b.id::text,
  octet_length(rtrim(convert_to(b.body, 'UTF8'), '\x1e'::bytea)) - octet_length(replace(b.body, chr(30), '')) AS idx
FROM ingest.heads h
JOIN ingest.batches b ON b.project = h.project AND b.seq = h.seq
WHERE h.project = $1::int

-- name: count
-- the batches after $2 that were received from $3 on, without those that are known to have only tombstones
SELECT b.behind, h.seq - b.behind AS batches, c.batches AS counted, c.events, (
    SELECT f.received_at FROM ingest.batches f WHERE f.project = $1::int AND f.seq > b.behind ORDER BY f.seq LIMIT 1
  ) AS first_at
FROM ingest.heads h
CROSS JOIN LATERAL (
  SELECT greatest(
    $2::bigint,
    (SELECT e.expired FROM ingest.erasures e WHERE e.project = $1::int),
    CASE WHEN $3::bigint IS NOT NULL THEN coalesce((
      SELECT f.seq - 1 FROM ingest.batches f WHERE f.project = $1::int AND f.received_at >= $3::bigint
      ORDER BY f.received_at, f.seq LIMIT 1
    ), h.seq) END
  ) AS behind
) b
CROSS JOIN LATERAL (
  SELECT count(*)::int AS batches, coalesce(sum(n.events), 0)::int AS events
  FROM (
    SELECT o.events
    FROM ingest.batches o
    WHERE o.project = $1::int AND o.seq > b.behind
    ORDER BY o.seq
    LIMIT $4::int
  ) n
) c
WHERE h.project = $1::int

-- name: heads
-- the heads of all watched projects, each found by its key
SELECT p.project_id, h.seq
FROM ingest.projects p
JOIN ingest.heads h ON h.project = p.project
WHERE p.project = ANY ($1::int[])
