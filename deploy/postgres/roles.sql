-- A database and two roles, as docs/postgres.md says: one owns the schema, the other runs servers and owns nothing.
-- The passwords come from the environment of psql.
\getenv owner_password INGEST_OWNER_PASSWORD
\getenv app_password INGEST_APP_PASSWORD
CREATE ROLE ingest_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE ingest_app LOGIN PASSWORD :'app_password';
CREATE DATABASE games OWNER ingest_owner ENCODING 'UTF8' TEMPLATE template0;
