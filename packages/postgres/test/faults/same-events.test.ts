import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { type PostgresServer, startPostgres, whyNoServer } from '../postgres-server.ts'
import { startIngestServer } from './ingest-server.ts'
import { createProject, readBack, startLoad, unexpected } from './senders.ts'

/** `INGEST_EVENTS=1000000 INGEST_OUTAGE_MS=4000 TAP_TIMEOUT=3600` for a long run. */
const events = Number(process.env.INGEST_EVENTS ?? 8000)
const outageMs = Number(process.env.INGEST_OUTAGE_MS ?? 0)
const eventsPerBatch = 100
const senders = 16
const batches = Math.ceil(events / eventsPerBatch / senders)
const sent = batches * senders * eventsPerBatch

t.test(
  `${sent} events that are sent to two servers at once are stored once each`,
  { skip: whyNoServer() },
  async (t) => {
    let database = await startPostgres()
    const { url: store, directory, port } = database
    const project = await createProject(store, 'game-1')
    const servers = [await startIngestServer(t, store), await startIngestServer(t, store)]
    const startedAt = performance.now()
    const loads = servers.map(({ url }) => startLoad({ urls: [url], project, senders, batches, eventsPerBatch }))
    /** Resolves when both have sent this part of the events. */
    const reached = (part: number) => Promise.all(loads.map((load) => load.reached(part * sent)))

    async function interrupt(name: string, end: (server: PostgresServer) => Promise<void>): Promise<void> {
      await end(database)
      const downAt = performance.now()
      const readiness = await Promise.all(servers.map((server) => server.readiness()))
      t.strictSame(
        readiness.map(({ status }) => status),
        [503, 503],
      )
      await sleep(outageMs)
      database = await startPostgres({ directory, port })
      const backAt = performance.now()
      const recoveries = await Promise.all(
        loads.map(async (load) => {
          await load.until(202)
          return Math.round(performance.now() - backAt)
        }),
      )
      const readinessMs = readiness.map((each) => Math.round(each.ms))
      t.comment(
        `${name}, back after ${Math.round(backAt - downAt)} ms: 503 of /readyz in ${readinessMs} ms, 202 in ${recoveries} ms`,
      )
    }

    await reached(0.15)
    await interrupt('stopped fast', (server) => server.stop('fast'))
    await reached(0.35)
    await interrupt('stopped immediately', (server) => server.stop('immediate'))
    await reached(0.55)
    await interrupt('killed', (server) => server.kill())
    await reached(0.75)
    await servers[1]?.kill()
    await sleep(outageMs)
    servers[1] = await startIngestServer(t, store, servers[1]?.port)
    await Promise.all(loads.map((load) => load.done))

    const seconds = (performance.now() - startedAt) / 1000
    for (const { ledger } of loads) {
      t.strictSame(unexpected(ledger), [])
      t.notOk(ledger.outcomes.has('late'), 'every response came in time')
      const { accepted, duplicates, longestMs, outcomes } = ledger
      t.comment(`${accepted} accepted, ${duplicates} duplicates, longest ${Math.round(longestMs)} ms`, [...outcomes])
    }
    t.comment(`${Math.round(seconds)} s`)
    const stored = await readBack(
      store,
      project,
      loads.map(({ ledger }) => ledger),
    )
    t.strictSame(stored, { events: sent, doubled: [], lost: [], unknown: [], totals: sent })
  },
)
