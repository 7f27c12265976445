import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startIngestServer } from '../faults/ingest-server.ts'
import { createProject, readBack, startLoad, unexpected } from '../faults/senders.ts'
import { whyNoServer } from '../postgres-server.ts'
import { startReplicatedServers } from './replicated-servers.ts'

/** `INGEST_FAILOVER_MS=5000` for a longer load, with figures. */
const loadMs = Number(process.env.INGEST_FAILOVER_MS ?? 0)

t.test(
  'with a synchronous standby, the loss of the primary loses and doubles nothing',
  { skip: whyNoServer() },
  async (t) => {
    const { stored, ledger } = await failOver(t, true)
    t.strictSame(stored, { doubled: [], lost: [], unknown: [], totals: stored.totals })
    t.strictSame(unexpected(ledger), [])
    t.notOk(ledger.outcomes.has('late'), 'every response came in time')
  },
)

t.test(
  'with an asynchronous standby, the loss of the primary loses acknowledged events',
  { skip: whyNoServer() },
  async (t) => {
    const { stored, ledger } = await failOver(t, false)
    t.ok(stored.lost.length > 0)
    t.strictSame(stored.doubled, [])
    t.strictSame(unexpected(ledger), [])
  },
)

/** Loses a primary under load while its standby is behind, promotes the standby, and reads back what it has. */
async function failOver(t: Test, isSynchronous: boolean) {
  const { primary, standby, startStandby, url, urlOf } = await startReplicatedServers(isSynchronous)
  const project = await createProject(url, 'game-1')
  const servers = await Promise.all([startIngestServer(t, url), startIngestServer(t, url)])
  const load = startLoad({ urls: servers.map((server) => server.url), project, senders: 8 })
  const untilBoth = () => Promise.all(servers.map((server) => load.until(202, { url: server.url, count: 10 })))
  await untilBoth()
  await sleep(loadMs)

  await standby.stop('immediate')
  // a synchronous primary acknowledges nothing from now on
  if (!isSynchronous) await untilBoth()
  await sleep(loadMs)
  await primary.kill()
  const lostAt = performance.now()
  const before = load.ledger.acknowledged.size
  await (await startStandby()).promote()
  const promotedAt = performance.now()
  await untilBoth()
  await sleep(loadMs)

  const ledger = await load.stop()
  const { events, ...stored } = await readBack(urlOf(standby), project, [ledger])
  const firstAt = ledger.acknowledgedAt.find((at) => at > promotedAt) as number
  t.comment(
    `${ledger.acknowledged.size} acknowledged, ${before} before the loss; ${events} stored; ${stored.lost.length} lost; ` +
      `no 202 for ${Math.round(firstAt - lostAt)} ms, ${Math.round(firstAt - promotedAt)} ms of it after the promotion; ` +
      JSON.stringify([...ledger.outcomes]),
  )
  return { stored, ledger }
}
