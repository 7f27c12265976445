import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startPostgres, whyNoServer } from '../postgres-server.ts'
import { type IngestServer, startIngestServer } from './ingest-server.ts'
import { createProject, type Load, readBack, startLoad, unexpected } from './senders.ts'

/** `INGEST_OUTAGE_MS=4000 INGEST_OUTAGES=10` for long ones. */
const outages = Number(process.env.INGEST_OUTAGES ?? 1)
const outageMs = Number(process.env.INGEST_OUTAGE_MS ?? 0)
const senders = 8

t.test('a database whose processes are frozen is not ready, and continues', { skip: whyNoServer() }, async (t) => {
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
    const readiness = await Promise.all(servers.map(({ readiness }) => readiness()))
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

function ms(value: number): string {
  return `${Math.round(value)} ms`
}

/** Figures, which are promises of the store but depend on the machine. */
function report(t: Test, name: string, figures: Record<string, number>): void {
  const text = Object.entries(figures).map(([key, value]) => `${key} ${Math.round(value)}`)
  t.comment(`${name}: ${text.join(', ')}`)
}
