CREATE TABLE ingest.maps (project int PRIMARY KEY);
CREATE FUNCTION ingest.freeze_maps_1(project int, builds text[]) RETURNS void LANGUAGE sql AS 'SELECT 1';
