import t from 'tap'
import { createDatabase, noPostgres, runSql } from '../database.ts'
import { type IngestServer, startIngestServer } from './ingest-server.ts'
import { createProject, readBack, startLoad, unexpected } from './senders.ts'

/** `INGEST_KILLS=100` for more. */
const kills = Number(process.env.INGEST_KILLS ?? 2)
const firstStarts = 5

t.test(`servers that are killed ${kills} times under load lose and double nothing`, { skip: noPostgres }, async (t) => {
  const store = await createDatabase()
  const project = await createProject(store, 'game-1')
  const servers = await Promise.all([startIngestServer(t, store), startIngestServer(t, store)])
  const urls = servers.map(({ url }) => url)
  const load = startLoad({ urls, project, senders: 8 })
  for (let n = 0; n < kills; n++) {
    const killed = n % 2
    const { url, port, kill } = servers[killed] as IngestServer
    await load.until(202, { count: 10, url })
    // with requests in flight
    await Promise.all([kill(), load.until('lost', { url })])
    await load.until(202, { count: 10, url: urls[1 - killed] as string })
    servers[killed] = await startIngestServer(t, store, port)
  }
  await Promise.all(urls.map((url) => load.until(202, { url })))
  const ledger = await load.stop()
  t.strictSame(unexpected(ledger), [])
  t.notOk(ledger.outcomes.has(503), 'the other server needs no break')
  const { events, ...stored } = await readBack(store, project, [ledger])
  t.comment(`${ledger.acknowledged.size} acknowledged, ${events} stored, ${JSON.stringify([...ledger.outcomes])}`)
  t.strictSame(stored, { doubled: [], lost: [], unknown: [], totals: events })
})

t.test('a server that is frozen under load holds up no other', { skip: noPostgres }, async (t) => {
  const store = await createDatabase()
  const project = await createProject(store, 'game-1')
  const servers = await Promise.all([startIngestServer(t, store), startIngestServer(t, store)])
  const [frozen, other] = servers as [IngestServer, IngestServer]
  const load = startLoad({ urls: [frozen.url, other.url], project, senders: 8, timeoutMs: 1000 })
  await load.until(202, { count: 10, url: frozen.url })
  frozen.signal('SIGSTOP')
  await load.until(202, { count: 50, url: other.url })
  frozen.signal('SIGCONT')
  await load.until(202, { count: 10, url: frozen.url })
  const ledger = await load.stop()
  t.strictSame(unexpected(ledger), [])
  t.notOk(ledger.outcomes.has(503))
  const { events, ...stored } = await readBack(store, project, [ledger])
  t.comment(`${ledger.acknowledged.size} acknowledged, ${events} stored, ${JSON.stringify([...ledger.outcomes])}`)
  t.strictSame(stored, { doubled: [], lost: [], unknown: [], totals: events })
})

t.test('two servers that are started at once on an empty database both work', { skip: noPostgres }, async (t) => {
  for (let n = 0; n < firstStarts; n++) {
    const store = await createDatabase()
    const servers = await Promise.all([startIngestServer(t, store), startIngestServer(t, store)])
    const project = await createProject(store, 'game-1')
    const urls = servers.map(({ url }) => url)
    const load = startLoad({ urls, project, senders: 2, batches: 2 })
    await load.done
    t.strictSame([...load.ledger.outcomes], [[202, 4]])
    const schemas = await runSql(store, "SELECT value FROM ingest.meta WHERE name IN ('store_id', 'version')")
    t.equal(schemas.length, 2)
    await Promise.all(servers.map(({ kill }) => kill()))
  }
})
