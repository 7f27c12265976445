import { type BatchResult, createIngest, type IngestError } from '@ingest/core'
import t from 'tap'
import { openPostgresStore } from '../../src/open-postgres-store.ts'
import { runSql } from '../database.ts'
import { holdLock } from '../hold-lock.ts'
import { whyNoServer } from '../postgres-server.ts'
import { startReplicatedServers } from './replicated-servers.ts'
import { startSwitchingProxy } from './switching-proxy.ts'

/** Ends the test of a store that never sees the promotion: ten times as long as one needs. */
const giveUpMs = 20_000

for (const hosts of ['a list of hosts', 'one host, a proxy'] as const) {
  t.test(`a former primary that keeps running gets no more writes: ${hosts}`, { skip: whyNoServer() }, async (t) => {
    const { url, urlOf, primary, standby } = await startReplicatedServers(false)
    const proxy = await startSwitchingProxy(t, primary.port)
    const store = await openPostgresStore(hosts === 'a list of hosts' ? url : urlOf(proxy))
    const ingest = createIngest({ store })
    t.teardown(() => ingest.close())
    const submit = (projectId: string, eventId: string) =>
      ingest.project(projectId).submitBatch({ events: [{ projectId, eventId }] })
    const eventsOf = async (server: { port: number }, projectId: string) => {
      const rows = await runSql<{ id: string }>(
        urlOf(server),
        `SELECT ingest.event_member(event, 'eventId') AS id FROM ingest.events WHERE project_id = '${projectId}'`,
      )
      return rows.map(({ id }) => id)
    }
    for (const projectId of ['blocked', 'running']) await submit(projectId, 'first')
    while ((await eventsOf(standby, 'running')).length === 0);

    // its connection is checked out when the promotion is seen
    await holdLock(
      t,
      urlOf(primary),
      "SELECT FROM ingest.heads JOIN ingest.projects USING (project) WHERE project_id = 'blocked' FOR UPDATE",
    )
    const blocked: Promise<BatchResult | IngestError> = submit('blocked', 'waiting').catch((error) => error)
    await Promise.all(Array.from({ length: 4 }, (_, i) => submit(i % 2 ? 'running' : 'other', `pooled-${i}`)))
    await standby.promote()
    proxy.switchTo(standby.port)
    const promotedAt = performance.now()
    let batches = 0
    let onNew: string[] = []
    while (!onNew.includes(`before-${batches}`) && performance.now() - promotedAt < giveUpMs) {
      await submit('running', `before-${++batches}`)
      onNew = await eventsOf(standby, 'running')
    }
    t.ok(onNew.includes(`before-${batches}`), 'the promotion is seen')

    const onFormer = await eventsOf(primary, 'running')
    const acknowledged = Array.from({ length: 50 }, (_, i) => `after-${i}`)
    await Promise.all(acknowledged.map((eventId) => submit('running', eventId)))
    onNew = await eventsOf(standby, 'running')
    t.strictSame(
      acknowledged.filter((eventId) => !onNew.includes(eventId)),
      [],
      'what is acknowledged from then on is stored by the new one',
    )
    t.strictSame(await eventsOf(primary, 'running'), onFormer, 'nothing of it by the former one')

    // 503, unless the repetition came in time
    const outcome = await blocked
    if ('code' in outcome) t.equal(outcome.code, 'store-unavailable')
    else t.ok((await eventsOf(standby, 'blocked')).includes('waiting'), 'so is what was under way')
  })
}
