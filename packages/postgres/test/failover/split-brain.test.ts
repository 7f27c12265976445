import { createIngest } from '@ingest/core'
import t from 'tap'
import { openPostgresStore } from '../../src/open-postgres-store.ts'
import { runSql } from '../database.ts'
import { whyNoServer } from '../postgres-server.ts'
import { startReplicatedServers } from './replicated-servers.ts'

t.test('a former primary that comes back', { skip: whyNoServer() }, async (t) => {
  const servers = await startReplicatedServers(false)
  const ingest = createIngest({ store: await openPostgresStore(servers.url) })
  t.teardown(() => ingest.close())
  const submit = (eventId: string, to = ingest) =>
    to.project('game-1').submitBatch({ events: [{ projectId: 'game-1', eventId }] })
  await submit('a')
  await servers.primary.stop()
  await servers.standby.promote()
  await submit('b')
  const former = await servers.startPrimary()
  const [formerUrl, currentUrl] = [former, servers.standby].map(servers.urlOf) as [string, string]
  const count = async (url: string) => (await runSql<{ n: number }>(url, 'SELECT count(*)::int AS n FROM ingest.event_keys'))[0]?.n
  t.comment('at first', await count(formerUrl), await count(currentUrl))
  await submit('c')
  t.comment('connected', await count(formerUrl), await count(currentUrl))
  await runSql(currentUrl, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ingest'")
  await submit('d')
  t.comment('reconnected', await count(formerUrl), await count(currentUrl))
  const late = createIngest({ store: await openPostgresStore(servers.url) })
  await submit('e', late)
  await late.close()
  t.comment('opened', await count(formerUrl), await count(currentUrl))
})
