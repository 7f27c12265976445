import { createIngest, digestOf, type EmbeddedIngest } from '@ingest/core'
import t from 'tap'
import { openPostgresStore } from '../../src/open-postgres-store.ts'
import { runSql } from '../database.ts'
import { whyNoServer } from '../postgres-server.ts'
import { startReplicatedServers } from './replicated-servers.ts'

const id = { placeId: '1', buildId: 'b' }
const [chunk, other] = [Buffer.from('one'), Buffer.from('other')]
const whole = Buffer.concat([chunk, other])
const manifest = {
  contentType: 'text/plain',
  size: whole.length,
  digest: digestOf(whole),
  chunks: [chunk, other].map((bytes) => ({ digest: digestOf(bytes), size: bytes.length })),
}
const player = { path: '/playerId', value: '7' }

interface Operation {
  prepare(ingest: EmbeddedIngest, projectId: string): Promise<unknown>
  /** Changes the project, and when it is repeated finds nothing to change. */
  run(ingest: EmbeddedIngest, projectId: string): Promise<unknown>
  /** Of a repetition. */
  result: object
}

async function submit(ingest: EmbeddedIngest, projectId: string): Promise<void> {
  await ingest.project(projectId).submitBatch({ events: [{ projectId, eventId: 'a', playerId: '7' }] })
}

const operations: Record<string, Operation> = {
  revoke: {
    prepare: (ingest, projectId) => ingest.keys.create(projectId),
    run: async ({ keys }, projectId) => keys.revoke(projectId, (await keys.list(projectId))[0]?.keyId as string),
    result: { revokedAt: Number },
  },
  'publish-map': {
    prepare: submit,
    run: (ingest, projectId) => ingest.project(projectId).publishMap({ ...id, map: { walls: 4 } }),
    result: { outcome: 'unchanged' },
  },
  'put-chunk': {
    prepare: (ingest, projectId) => ingest.project(projectId).publishMap({ ...id, manifest }),
    run: async (ingest, projectId) => ingest.project(projectId).putChunk(digestOf(chunk), chunk),
    result: { outcome: 'existing' },
  },
  erase: {
    prepare: submit,
    run: (ingest, projectId) => ingest.eraseEvents(projectId, player),
    result: { events: 0 },
  },
  retain: {
    prepare: submit,
    run: (ingest, projectId) => ingest.retainEvents(projectId, Date.now() + 60_000),
    result: { events: 0 },
  },
}

t.test(
  'what a cancelled wait made visible is acknowledged once the standby has it',
  { skip: whyNoServer() },
  async (t) => {
    const { url, urlOf, primary, standby } = await startReplicatedServers(true)
    await runSql(urlOf(primary), 'ALTER DATABASE ingest SET synchronous_commit = local')
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
    // the primary has all of it now, and nothing else has

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
  },
)
