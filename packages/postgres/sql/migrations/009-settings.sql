-- What decides durability and order depends on no setting of the role, the database or a pooler. Servers of earlier versions
-- call these functions by the same names.

-- Raises the durability of this transaction to a local flush at least, whatever the session is set to. Its settings hold
-- until the commit has waited for the standby.
CREATE OR REPLACE FUNCTION ingest.require_durability_1() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  -- with one snapshot for the transaction, its statements do not see what was stored while they waited for a lock
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION 'default_transaction_isolation is "%", and must be "read committed"', current_setting('transaction_isolation')
      USING ERRCODE = 'IG002';
  END IF;
  IF current_setting('synchronous_commit') IN ('off', 'local', 'remote_write') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  -- with it, a duplicate would end the connection
  IF current_setting('exit_on_error') = 'on' THEN
    PERFORM set_config('exit_on_error', 'off', true);
  END IF;
  -- a cancelled wait for the standby is a warning and nothing else
  PERFORM set_config('client_min_messages', 'warning', true);
END $$;

-- Backslashes of a pattern are those of standard strings.
ALTER FUNCTION ingest.event_member SET standard_conforming_strings = on;
