import pg from 'pg'
import type { Test } from 'tap'

/** Runs a statement in a transaction that stays open until `release`, or the end of the test. */
export async function holdLock(t: Test, url: string, sql: string): Promise<{ release(): Promise<void> }> {
  const client = new pg.Client(url)
  await client.connect()
  await client.query('BEGIN')
  await client.query(sql)
  let released: Promise<void> | undefined
  const release = () => {
    released ??= client.query('ROLLBACK').then(() => client.end())
    return released
  }
  t.teardown(release)
  return { release }
}
