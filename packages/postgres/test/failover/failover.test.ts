import { setTimeout as sleep } from 'node:timers/promises'
import { type BatchResult, createIngest, digestOf, type EmbeddedIngest, type IngestError } from '@ingest/core'
import t, { type Test } from 'tap'
import { openPostgresStore } from '../../src/open-postgres-store.ts'
import { holdLock, runSql } from '../database.ts'
import { startIngestServer } from '../faults/ingest-server.ts'
import { checkStored, createProject, readBack, startLoad } from '../faults/senders.ts'
import { whyNoServer } from '../postgres-server.ts'
import { startProxy } from '../proxy.ts'
import { startReplicatedServers } from './replicated-servers.ts'

const skip = whyNoServer()

/** `INGEST_FAILOVER_MS=5000` runs a longer load and prints figures, and tests an asynchronous standby too. */
const loadMs = Number(process.env.INGEST_FAILOVER_MS ?? 0)
/** Ends the test of a store that never sees the promotion: ten times as long as a store needs. */
const giveUpMs = 20_000

t.test(
  'with a synchronous standby, the loss of the primary neither loses nor duplicates events',
  { skip },
  async (t) => {
    const { store, project, ledger } = await failOver(t, true)
    t.notOk(ledger.outcomes.has('late'), 'every response came in time')
    await checkStored(t, store, project, [ledger])
  },
)

const skipLong = skip || (loadMs === 0 && 'only with INGEST_FAILOVER_MS')
t.test('with an asynchronous standby, the loss of the primary loses events', { skip: skipLong }, async (t) => {
  const { store, project, ledger } = await failOver(t, false)
  const { doubled, lost } = await readBack(store, project, [ledger])
  t.ok(lost.length > 0)
  t.strictSame(doubled, [])
})

/** Loses a primary under load while its standby is behind, and promotes the standby. */
async function failOver(t: Test, isSynchronous: boolean) {
  const { primary, standby, startStandby, url, urlOf } = await startReplicatedServers(isSynchronous)
  const project = await createProject(url, 'game-1')
  const servers = await Promise.all([startIngestServer(t, url), startIngestServer(t, url)])
  const load = startLoad({ urls: servers.map((server) => server.url), project, senders: 8 })
  const untilBoth = () => Promise.all(servers.map((server) => load.until(202, { url: server.url, count: 10 })))
  await untilBoth()
  await sleep(loadMs)

  await standby.stop('immediate')
  // from now on, a synchronous primary acknowledges nothing
  if (!isSynchronous) await untilBoth()
  await sleep(loadMs)
  await primary.kill()
  const lostAt = performance.now()
  await (await startStandby()).promote()
  await untilBoth()
  await sleep(loadMs)
  const ledger = await load.stop()
  const firstAt = ledger.acknowledgedAt.find((at) => at > lostAt) as number
  t.comment(`no 202 for ${Math.round(firstAt - lostAt)} ms`)
  return { store: urlOf(standby), project, ledger }
}

t.test('a former primary that comes back gets no writes', { skip }, async (t) => {
  const { url, urlOf, primary, standby, startPrimary } = await startReplicatedServers(false)
  const ingest = createIngest({ store: await openPostgresStore(url) })
  t.teardown(() => ingest.close())
  await submit(ingest, 'p', 'a')
  await primary.stop()
  await standby.promote()
  await submit(ingest, 'p', 'b')

  const former = await startPrimary()
  const ofStores = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ingest'"
  await runSql(urlOf(standby), ofStores)
  await submit(ingest, 'p', 'c')
  const late = createIngest({ store: await openPostgresStore(url) })
  await submit(late, 'p', 'd')
  await late.close()
  t.strictSame(await eventsOf(urlOf(former), 'p'), ['a'])
  t.strictSame(await eventsOf(urlOf(standby), 'p'), ['a', 'b', 'c', 'd'], 'over new connections, and of a new store')

  await standby.kill()
  await t.rejects(submit(ingest, 'p', 'e'), { code: 'store-unavailable' }, 'of a store that knows a newer one')
})

for (const hosts of ['a list of hosts', 'one host, a proxy'] as const) {
  t.test(`a former primary that keeps running gets no more writes: ${hosts}`, { skip }, async (t) => {
    const { url, urlOf, primary, standby } = await startReplicatedServers(false)
    const proxy = await startProxy(t, urlOf(primary))
    const ingest = createIngest({ store: await openPostgresStore(hosts === 'a list of hosts' ? url : proxy.url) })
    t.teardown(() => ingest.close())
    for (const projectId of ['blocked', 'running']) await submit(ingest, projectId, 'first')
    while ((await eventsOf(urlOf(standby), 'running')).length === 0);

    // the connection is in use when the promotion is seen
    await holdLock(
      t,
      urlOf(primary),
      "SELECT FROM ingest.heads JOIN ingest.projects USING (project) WHERE project_id = 'blocked' FOR UPDATE",
    )
    const blocked: Promise<BatchResult | IngestError> = submit(ingest, 'blocked', 'waiting').catch((error) => error)
    await Promise.all(['other', 'running'].flatMap((id) => ['one', 'two'].map((event) => submit(ingest, id, event))))
    await standby.promote()
    proxy.switchTo(standby.port)
    const promotedAt = performance.now()
    let batches = 0
    let onNew: string[] = []
    while (!onNew.includes(`before-${batches}`) && performance.now() - promotedAt < giveUpMs) {
      await submit(ingest, 'running', `before-${++batches}`)
      onNew = await eventsOf(urlOf(standby), 'running')
    }
    t.ok(onNew.includes(`before-${batches}`), 'the promotion is seen')

    const onFormer = await eventsOf(urlOf(primary), 'running')
    const acknowledged = Array.from({ length: 50 }, (_, i) => `after-${i}`)
    await Promise.all(acknowledged.map((eventId) => submit(ingest, 'running', eventId)))
    onNew = await eventsOf(urlOf(standby), 'running')
    const missing = acknowledged.filter((eventId) => !onNew.includes(eventId))
    t.strictSame(missing, [], 'what is acknowledged from then on is stored by the new one')
    t.strictSame(await eventsOf(urlOf(primary), 'running'), onFormer, 'nothing of it by the former one')

    // a 503, unless the retry came in time
    const outcome = await blocked
    if ('code' in outcome) t.equal(outcome.code, 'store-unavailable')
    else t.ok((await eventsOf(urlOf(standby), 'blocked')).includes('waiting'), 'so is what was under way')
  })
}

const id = { placeId: '1', buildId: 'b' }
const parts = [Buffer.from('one'), Buffer.from('other')] as const
const whole = Buffer.concat(parts)
const manifest = {
  contentType: 'text/plain',
  size: whole.length,
  digest: digestOf(whole),
  chunks: parts.map((bytes) => ({ digest: digestOf(bytes), size: bytes.length })),
}

interface Operation {
  prepare(ingest: EmbeddedIngest, projectId: string): Promise<unknown>
  /** Changes the project; a repetition finds nothing to change. */
  run(ingest: EmbeddedIngest, projectId: string): Promise<unknown>
  /** The result of a repetition. */
  result: object
}

const prepare = (ingest: EmbeddedIngest, projectId: string) => submit(ingest, projectId, 'a', { playerId: '7' })

const operations: Record<string, Operation> = {
  append: {
    // after a duplicate, an append that stores nothing writes nothing, so its commit does not wait for the standby by itself
    async prepare(ingest, projectId) {
      for (const _ of [1, 2]) await submit(ingest, projectId, 'a')
    },
    run: (ingest, projectId) => submit(ingest, projectId, 'b'),
    result: { duplicates: 1 },
  },
  // the event is stored, as by another process, and then its id is looked up for an event that is invalid by now
  'look-up': {
    prepare,
    run: async (ingest, projectId) => {
      const isStored = await ingest.project(projectId).findEvent('b')
      return submit(ingest, projectId, 'b', isStored && { buildId: 5 })
    },
    result: { duplicates: 1, rejected: [] },
  },
  revoke: {
    prepare: (ingest, projectId) => ingest.keys.create(projectId),
    run: async ({ keys }, projectId) => keys.revoke(projectId, (await keys.list(projectId))[0]?.keyId as string),
    result: { revokedAt: Number },
  },
  'publish-map': {
    prepare,
    run: (ingest, projectId) => ingest.project(projectId).publishMap({ ...id, map: { walls: 4 } }),
    result: { outcome: 'unchanged' },
  },
  'put-chunk': {
    prepare: (ingest, projectId) => ingest.project(projectId).publishMap({ ...id, manifest }),
    run: async (ingest, projectId) => ingest.project(projectId).putChunk(digestOf(parts[0]), parts[0]),
    result: { outcome: 'existing' },
  },
  erase: {
    prepare,
    run: (ingest, projectId) => ingest.eraseEvents(projectId, { path: '/playerId', value: '7' }),
    result: { events: 0 },
  },
  retain: {
    prepare,
    run: (ingest, projectId) => ingest.retainEvents(projectId, Date.now() + 60_000),
    result: { events: 0 },
  },
}

t.test('data that a cancelled wait made visible is acknowledged once the standby has it', { skip }, async (t) => {
  const { url, urlOf, primary, standby } = await startReplicatedServers(true)
  // settings that would hide that a wait was cancelled, or that would not wait
  for (const setting of ['synchronous_commit = local', 'client_min_messages = error']) {
    await runSql(urlOf(primary), `ALTER DATABASE ingest SET ${setting}`)
  }
  const open = async (statementTimeoutMs: number) => {
    const ingest = createIngest({ store: await openPostgresStore(url, { statementTimeoutMs }) })
    t.teardown(() => ingest.close())
    return ingest
  }
  const [ingest, impatient] = [await open(10_000), await open(300)]
  for (const [projectId, { prepare }] of Object.entries(operations)) await prepare(ingest, projectId)
  const waiting = () =>
    runSql<{ pid: number }>(urlOf(primary), "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'")

  const frozen = standby.pids()
  for (const pid of frozen) process.kill(pid, 'SIGSTOP')
  t.teardown(() => {
    for (const pid of standby.pids()) process.kill(pid, 'SIGCONT')
  })
  let left = Object.keys(operations).length
  for (const [projectId, { run }] of Object.entries(operations)) {
    const failed = run(impatient, projectId).then(
      () => t.fail(`${projectId} was acknowledged`),
      ({ code }) => t.equal(code, 'store-unavailable', projectId),
    )
    void failed.finally(() => left--)
  }
  for (let pids = await waiting(); left > 0 || pids.length > 0; pids = await waiting()) {
    for (const { pid } of pids) await runSql(urlOf(primary), 'SELECT pg_cancel_backend($1)', [pid])
  }
  // only the primary has all of it now

  const acknowledged: string[] = []
  const repeated = Object.entries(operations).map(async ([projectId, { run, result }]) => {
    const repetition = await run(ingest, projectId)
    acknowledged.push(projectId)
    t.match(repetition, result, projectId)
  })
  let count = 0
  while (count + acknowledged.length < repeated.length) count = (await waiting()).length
  t.strictSame(acknowledged, [])

  for (const pid of frozen) process.kill(pid, 'SIGCONT')
  await Promise.all(repeated)
  await primary.kill()
  await standby.promote()
  for (const [projectId, { run, result }] of Object.entries(operations)) {
    t.match(await run(ingest, projectId), result, `${projectId} after the failover`)
  }
})

/** Submits one event, whose id is unique in its project. */
async function submit(
  ingest: EmbeddedIngest,
  projectId: string,
  eventId: string,
  members: object = {},
): Promise<BatchResult> {
  return ingest.project(projectId).submitBatch({ events: [{ projectId, eventId, ...members }] })
}

/** The ids of the events of a project on a server. */
async function eventsOf(url: string, projectId: string): Promise<string[]> {
  const sql = `SELECT ingest.event_member(event, 'eventId') AS id FROM ingest.events WHERE project_id = $1 ORDER BY seq, idx`
  return (await runSql<{ id: string }>(url, sql, [projectId])).map(({ id }) => id)
}
