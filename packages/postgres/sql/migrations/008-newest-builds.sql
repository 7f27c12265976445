-- The newest builds: open ones, whose time is after all others, then the newest freeze.
CREATE INDEX builds_newest ON ingest.builds (project, coalesce(frozen_at, 9223372036854775806), build_id);
