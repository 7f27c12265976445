import { createIngest } from '@ingest/core'
import t from 'tap'
import { openPostgresStore } from '../../src/open-postgres-store.ts'
import { whyNoServer } from '../postgres-server.ts'
import { startReplicatedServers } from './replicated-servers.ts'

t.test('an event that no standby has is not a duplicate yet', { skip: whyNoServer() }, async (t) => {
  const servers = await startReplicatedServers(true)
  const ingest = createIngest({ store: await openPostgresStore(servers.url, { statementTimeoutMs: 300 }) })
  t.teardown(() => ingest.close())
  const submit = (eventId: string) =>
    ingest.project('game-1').submitBatch({ events: [{ projectId: 'game-1', eventId }] })
  t.match(await submit('before'), { accepted: 1 })

  await servers.standby.stop()
  await t.rejects(submit('a'), { code: 'store-unavailable' }, 'its commit waits for the standby')
  // ends the wait: the primary has the event now, and nothing else has
  await servers.primary.stop()
  const primary = await servers.startPrimary()
  t.ok(await ingest.project('game-1').findEvent('a'))
  await t.rejects(submit('a'), { code: 'store-unavailable' }, 'as a duplicate would be acknowledged')

  const standby = await servers.startStandby()
  t.match(await submit('a'), { duplicates: 1 })
  await primary.kill()
  await standby.promote()
  t.match(await submit('a'), { duplicates: 1 })
})
