import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { createDatabase, noPostgres } from '../database.ts'
import { type PostgresServer, startPostgres, whyNoServer } from '../postgres-server.ts'
import { type IngestServer, startIngestServer } from './ingest-server.ts'
import { checkStored, createProject, startLoad } from './senders.ts'

/** `INGEST_KILLS=100` kills more often. */
const kills = Number(process.env.INGEST_KILLS ?? 2)
/** `INGEST_EVENTS=1000000 INGEST_OUTAGE_MS=4000 TAP_TIMEOUT=3600` for a long run. */
const events = Number(process.env.INGEST_EVENTS ?? 8000)
const outageMs = Number(process.env.INGEST_OUTAGE_MS ?? 0)
const eventsPerBatch = 100
const senders = 16
const batches = Math.ceil(events / eventsPerBatch / senders)
const sent = batches * senders * eventsPerBatch

t.test(
  'servers that are killed and frozen under load neither lose nor duplicate events',
  { skip: noPostgres },
  async (t) => {
    const store = await createDatabase()
    const project = await createProject(store, 'game-1')
    const servers = await Promise.all([startIngestServer(t, store), startIngestServer(t, store)])
    const urls = servers.map(({ url }) => url)
    const load = startLoad({ urls, project, senders: 8, timeoutMs: 1000 })
    for (let n = 0; n < kills; n++) {
      const killed = n % 2
      const { url, port, kill } = servers[killed] as IngestServer
      await load.until(202, { count: 10, url })
      // while requests are in flight
      await Promise.all([kill(), load.until('lost', { url })])
      await load.until(202, { count: 10, url: urls[1 - killed] as string })
      servers[killed] = await startIngestServer(t, store, port)
    }
    const [frozen, other] = servers as [IngestServer, IngestServer]
    await load.until(202, { count: 10, url: frozen.url })
    frozen.signal('SIGSTOP')
    await load.until(202, { count: 50, url: other.url })
    frozen.signal('SIGCONT')
    await Promise.all(urls.map((url) => load.until(202, { url })))
    const ledger = await load.stop()
    t.notOk(ledger.outcomes.has(503), 'the other server needs no break')
    await checkStored(t, store, project, [ledger])
  },
)

t.test(
  `${sent} events that are sent to two servers at once are stored once, whatever happens to the database`,
  { skip: whyNoServer() },
  async (t) => {
    let database = await startPostgres()
    const { url: store, directory, port } = database
    const restart = async () => {
      database = await startPostgres({ directory, port })
    }
    const project = await createProject(store, 'game-1')
    const servers = [await startIngestServer(t, store), await startIngestServer(t, store)]
    const loads = servers.map(({ url }) => startLoad({ urls: [url], project, senders, batches, eventsPerBatch }))
    const all = (outcome: number) => Promise.all(loads.map((load) => load.until(outcome)))

    const freeze = async (server: PostgresServer) => signalAll(server, 'SIGSTOP')
    const thaw = async () => signalAll(database, 'SIGCONT')
    const outages: [how: string, begin: (server: PostgresServer) => Promise<unknown>, end: () => Promise<unknown>][] = [
      ['stopped fast', ({ stop }) => stop('fast'), restart],
      ['stopped immediately', ({ stop }) => stop('immediate'), restart],
      ['killed', ({ kill }) => kill(), restart],
      ['frozen', freeze, thaw],
    ]
    for (const [n, [how, begin, end]] of outages.entries()) {
      await Promise.all(loads.map((load) => load.reached((0.15 + 0.2 * n) * sent)))
      await begin(database)
      const beganAt = performance.now()
      const refused = outageMs > 0 ? all(503) : undefined
      t.strictSame(await Promise.all(servers.map(({ readiness }) => readiness())), [503, 503], how)
      const refusedAfterMs = performance.now() - beganAt
      await refused
      await sleep(outageMs)
      await end()
      const endedAt = performance.now()
      await all(202)
      const recoveryMs = performance.now() - endedAt
      t.comment(`${how}: not ready after ${Math.round(refusedAfterMs)} ms, 202 after ${Math.round(recoveryMs)} ms`)
    }
    await servers[1]?.kill()
    await sleep(outageMs)
    await startIngestServer(t, store, servers[1]?.port)
    await Promise.all(loads.map(({ done }) => done))

    const ledgers = loads.map(({ ledger }) => ledger)
    for (const { outcomes, acknowledged } of ledgers) {
      t.notOk(outcomes.has('late'), 'every response came in time')
      t.equal(acknowledged.size, sent)
    }
    await checkStored(t, store, project, ledgers)
  },
)

function signalAll({ pids }: PostgresServer, signal: NodeJS.Signals): void {
  for (const pid of pids()) {
    try {
      process.kill(pid, signal)
    } catch (error) {
      // the process has ended since it was listed
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }
}
