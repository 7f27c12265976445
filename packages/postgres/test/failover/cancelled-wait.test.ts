import { createIngest, type EmbeddedIngest } from '@ingest/core'
import t from 'tap'
import { openPostgresStore } from '../../src/open-postgres-store.ts'
import { runSql } from '../database.ts'
import { whyNoServer } from '../postgres-server.ts'
import { startReplicatedServers } from './replicated-servers.ts'

t.test('a cancelled wait for the standby acknowledges nothing', { skip: whyNoServer() }, async (t) => {
  const { url, urlOf, primary, standby } = await startReplicatedServers(true)
  const open = async (statementTimeoutMs: number) => {
    const ingest = createIngest({ store: await openPostgresStore(url, { statementTimeoutMs }) })
    t.teardown(() => ingest.close())
    return ingest
  }
  const [one, other, impatient] = [await open(10_000), await open(10_000), await open(300)]
  const acknowledged: string[] = []
  const submit = async (ingest: EmbeddedIngest, eventId: string, more = {}) => {
    const result = await ingest.project('game-1').submitBatch({ events: [{ projectId: 'game-1', eventId, ...more }] })
    acknowledged.push(eventId)
    return result
  }
  /** Cancels a wait as soon as there is one, unless it is too late. */
  const cancelWait = async () => {
    let rows: object[] = []
    while (rows.length === 0 && acknowledged.length === 0) {
      rows = await runSql(
        urlOf(primary),
        `WITH waiting AS MATERIALIZED (SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep')
        SELECT pg_cancel_backend(pid) FROM waiting`,
      )
    }
  }
  for (const ingest of [one, other, impatient]) await submit(ingest, 'before')
  acknowledged.length = 0

  const frozen = standby.pids()
  for (const pid of frozen) process.kill(pid, 'SIGSTOP')
  t.teardown(() => {
    for (const pid of standby.pids()) process.kill(pid, 'SIGCONT')
  })
  const first = submit(one, 'a')
  await cancelWait()
  while (!(await other.project('game-1').findEvent('a')));
  // the primary has it now, and nothing else has
  const repeated = submit(other, 'a')
  const invalid = submit(other, 'a', { buildId: 5 })
  // the head of the project is locked: other waits are behind these
  for (let n = 0; n < 3; n++) await cancelWait()
  const refused = await submit(impatient, 'a').catch((error) => error)
  t.equal(refused.code, 'store-unavailable')
  t.strictSame(acknowledged, [])

  for (const pid of frozen) process.kill(pid, 'SIGCONT')
  for (const settled of [first, repeated, invalid]) {
    const outcome = await settled.catch((error) => error)
    if ('code' in outcome) t.equal(outcome.code, 'store-unavailable')
    else t.match(outcome, { rejected: [] })
  }
  t.match(await submit(other, 'a'), { duplicates: 1 })
  await primary.kill()
  await standby.promote()
  t.match(await submit(one, 'a'), { duplicates: 1 })
})
