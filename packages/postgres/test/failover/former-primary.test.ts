import { createIngest } from '@ingest/core'
import t from 'tap'
import { openPostgresStore } from '../../src/open-postgres-store.ts'
import { runSql } from '../database.ts'
import { type PostgresServer, whyNoServer } from '../postgres-server.ts'
import { startReplicatedServers } from './replicated-servers.ts'

t.test('a former primary that comes back gets no writes', { skip: whyNoServer() }, async (t) => {
  const { url, urlOf, primary, standby, startPrimary } = await startReplicatedServers(false)
  const submit = (ingest: ReturnType<typeof createIngest>, eventId: string) =>
    ingest.project('game-1').submitBatch({ events: [{ projectId: 'game-1', eventId }] })
  const count = async (server: PostgresServer) => {
    const [row] = await runSql<{ n: number }>(urlOf(server), 'SELECT count(*)::int AS n FROM ingest.event_keys')
    return row?.n
  }
  const ingest = createIngest({ store: await openPostgresStore(url) })
  t.teardown(() => ingest.close())
  await submit(ingest, 'a')
  await primary.stop()
  await standby.promote()
  await submit(ingest, 'b')

  const former = await startPrimary()
  await runSql(
    urlOf(standby),
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ingest'",
  )
  await submit(ingest, 'c')
  t.strictSame([await count(former), await count(standby)], [1, 3], 'of a store with new connections')
  const late = createIngest({ store: await openPostgresStore(url) })
  await submit(late, 'd')
  await late.close()
  t.strictSame([await count(former), await count(standby)], [1, 4], 'of a store that was opened since')

  await standby.kill()
  await t.rejects(submit(ingest, 'e'), { code: 'store-unavailable' }, 'of a store that knows a newer one')
})
