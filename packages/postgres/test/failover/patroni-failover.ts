import t from 'tap'
import { runSql } from '../database.ts'
import { startIngestServer } from '../faults/ingest-server.ts'
import { checkStored, createProject, startLoad } from '../faults/senders.ts'
import { startPatroniCluster } from './patroni-cluster.ts'

t.setTimeout(180_000)

t.test('failovers of a synchronous Patroni cluster neither lose nor duplicate events', async (t) => {
  const cluster = await startPatroniCluster(t)
  const { url, proxyUrl, urlOf, nodes, ready, switchOver } = cluster
  const first = await ready(nodes.length)
  const admin = urlOf(first.primary).replace(/ingest$/, 'postgres')
  await runSql(admin, "CREATE DATABASE ingest ENCODING 'UTF8' TEMPLATE template0")
  const project = await createProject(url, 'game-1')
  const servers = [await startIngestServer(t, url), await startIngestServer(t, proxyUrl)]
  const load = startLoad({ urls: servers.map((server) => server.url), project, senders: 8 })
  const { ledger } = load
  const untilAll = (count = 1) => Promise.all(servers.map((server) => load.until(202, { url: server.url, count })))
  await untilAll(10)

  /** Changes the primary, and waits until both servers have acknowledged events that the new primary has. */
  async function change(name: string, how: () => Promise<void>): Promise<void> {
    const { primary } = await ready(nodes.length - 1)
    const [before, startedAt] = [ledger.acknowledged.size, performance.now()]
    await how()
    let now = primary
    while (now === primary) now = (await ready(1)).primary
    await untilAll(10)
    const pauseMs = longestPause(ledger.acknowledgedAt, startedAt)
    t.comment(
      `${name}: ${primary.name} to ${now.name}; ${before} acknowledged before; ` +
        `longest time without a 202: ${(pauseMs / 1000).toFixed(1)} s`,
    )
  }

  await change('kill -9 of the node', async () => {
    const { primary } = await ready(nodes.length)
    await primary.kill()
  })
  for (const node of nodes) if (node === first.primary) node.start()
  await ready(nodes.length)
  await change('switchover', switchOver)

  const { primary: frozen } = await ready(nodes.length)
  await change('frozen agent, whose PostgreSQL keeps running', async () => frozen.signal('SIGSTOP'))
  frozen.signal('SIGCONT')
  await ready(nodes.length)
  await untilAll(10)

  await load.stop()
  await checkStored(t, url, project, [ledger])
})

function longestPause(times: readonly number[], since: number): number {
  const later = [since, ...times.filter((at) => at > since)]
  return Math.max(...later.slice(1).map((at, i) => at - (later[i] as number)))
}
