import { get } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { noPostgres } from '../database.ts'
import { type PostgresServer, startPostgres } from '../postgres-server.ts'
import { type IngestServer, startIngestServer } from './ingest-server.ts'
import { createProject, type Load, readBack, startLoad, unexpected } from './senders.ts'

/** `INGEST_OUTAGE_MS=4000 INGEST_OUTAGES=10` for long ones. */
const outages = Number(process.env.INGEST_OUTAGES ?? 1)
const outageMs = Number(process.env.INGEST_OUTAGE_MS ?? 0)
const senders = 8

t.test(
  'a database that is stopped, killed or frozen under load loses and doubles nothing',
  { skip: noPostgres },
  async (t) => {
    let database = await startPostgres()
    const { url: store, directory, port } = database
    const project = await createProject(store, 'game-1')
    const servers = await Promise.all([startIngestServer(t, store), startIngestServer(t, store)])
    const load = startLoad({ urls: servers.map(({ url }) => url), project, senders })

    const endings: [string, (server: PostgresServer) => Promise<void> | void][] = [
      ['stopped fast', (server) => server.stop('fast')],
      ['stopped immediately', (server) => server.stop('immediate')],
      ['killed', (server) => server.kill()],
    ]
    for (let round = 0; round < outages; round++) {
      for (const [name, end] of endings) {
        await untilAll(servers, load, 202)
        await sleep(outageMs)
        const downAt = performance.now()
        const refused = outageMs > 0 ? untilAll(servers, load, 503) : undefined
        await end(database)
        const readiness = await Promise.all(servers.map(({ url }) => probe(`${url}/readyz`)))
        t.strictSame(
          readiness.map(({ status }) => status),
          [503, 503],
          `not ready while PostgreSQL is ${name}`,
        )
        await refused
        await sleep(outageMs)
        database = await startPostgres({ directory, port })
        const backAt = performance.now()
        await untilAll(servers, load, 202)
        report(t, `${name}: down for ${ms(backAt - downAt)}`, {
          readinessMs: Math.max(...readiness.map((each) => each.ms)),
          recoveryMs: performance.now() - backAt,
          longestMs: load.ledger.longestMs,
        })
      }
    }

    const ledger = await load.stop()
    t.strictSame(unexpected(ledger), [])
    t.notOk(ledger.outcomes.has('late'), 'every response came in time')
    t.notOk(ledger.outcomes.has('lost'), 'the servers broke no connection')
    const { events, ...stored } = await readBack(store, project, [ledger])
    t.comment(`${ledger.acknowledged.size} acknowledged, ${events} stored, ${JSON.stringify([...ledger.outcomes])}`)
    t.strictSame(stored, { doubled: [], lost: [], unknown: [], totals: events })
  },
)

t.test('a database whose processes are frozen is not ready, and continues', { skip: noPostgres }, async (t) => {
  const database = await startPostgres()
  const project = await createProject(database.url, 'game-1')
  const servers = await Promise.all([startIngestServer(t, database.url), startIngestServer(t, database.url)])
  const load = startLoad({ urls: servers.map(({ url }) => url), project, senders })
  for (let round = 0; round < outages; round++) {
    await untilAll(servers, load, 202)
    await sleep(outageMs)
    const frozen = database.pids()
    for (const pid of frozen) process.kill(pid, 'SIGSTOP')
    const downAt = performance.now()
    const refused = outageMs > 0 ? untilAll(servers, load, 503) : undefined
    const readiness = await Promise.all(servers.map(({ url }) => probe(`${url}/readyz`)))
    t.strictSame(
      readiness.map(({ status }) => status),
      [503, 503],
    )
    await refused
    const refusedMs = performance.now() - downAt
    await sleep(outageMs)
    for (const pid of frozen) process.kill(pid, 'SIGCONT')
    const backAt = performance.now()
    await untilAll(servers, load, 202)
    report(t, `frozen for ${ms(backAt - downAt)}`, {
      readinessMs: Math.max(...readiness.map((each) => each.ms)),
      refusedMs,
      recoveryMs: performance.now() - backAt,
      longestMs: load.ledger.longestMs,
    })
  }
  const ledger = await load.stop()
  t.strictSame(unexpected(ledger), [])
  t.notOk(ledger.outcomes.has('late'), 'every response came in time')
  const { events, ...stored } = await readBack(database.url, project, [ledger])
  t.comment(`${ledger.acknowledged.size} acknowledged, ${events} stored, ${JSON.stringify([...ledger.outcomes])}`)
  t.strictSame(stored, { doubled: [], lost: [], unknown: [], totals: events })
})

async function untilAll(servers: readonly IngestServer[], load: Load, outcome: number): Promise<void> {
  await Promise.all(servers.map(({ url }) => load.until(outcome, { url })))
}

function probe(url: string): Promise<{ status: number; ms: number }> {
  const startedAt = performance.now()
  return new Promise((resolve, reject) => {
    get(url, (response) => {
      response.resume()
      resolve({ status: response.statusCode as number, ms: performance.now() - startedAt })
    }).on('error', reject)
  })
}

function ms(value: number): string {
  return `${Math.round(value)} ms`
}

/** Figures, which are promises of the store but depend on the machine. */
function report(t: Test, name: string, figures: Record<string, number>): void {
  const text = Object.entries(figures).map(([key, value]) => `${key} ${Math.round(value)}`)
  t.comment(`${name}: ${text.join(', ')}`)
}
