-- For people and reports: one row for each event. For an erased event, `event` is null and `erased` is its id.

CREATE VIEW ingest.events AS
  SELECT p.project_id, b.seq, (x.no - 1)::int AS idx, to_timestamp(b.received_at / 1000.0) AS received_at,
    CASE WHEN x.event LIKE '{%' THEN x.event END AS event,
    CASE WHEN x.event LIKE '"%' THEN x.event::json #>> '{}' END AS erased
  FROM ingest.projects p
  JOIN ingest.batches b ON b.project = p.project
  CROSS JOIN LATERAL string_to_table(b.body, E'\x1e') WITH ORDINALITY AS x(event, no)
  WHERE x.event <> '';

-- A member of an event as text; null without it. PostgreSQL's text holds neither U+0000 nor half of a surrogate pair:
-- in an event that has one, these and all surrogates become U+FFFD.
CREATE FUNCTION ingest.event_member(event text, member text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
-- backslashes of the pattern are those of standard strings
SET standard_conforming_strings = on AS $$
BEGIN
  RETURN event::json ->> member;
EXCEPTION WHEN untranslatable_character OR invalid_text_representation THEN
  RETURN regexp_replace(
    event, '(?<!\\)((?:\\\\)*)\\u(0000|[dD][89a-fA-F][0-9a-fA-F]{2})', '\1\\ufffd', 'g')::json ->> member;
END $$;
