import { join } from 'node:path'
import { openMemoryStore } from '@ingest/core'
import { openLmdbStore } from '@ingest/core/lmdb'
import t from 'tap'
import { runParallel } from '../src/run-parallel.ts'
import { type FaultyServer, faultNames, openFaultyServer, runSender } from './sender-runs.ts'

// two thousand take most of a minute, more of them are run by hand
t.setTimeout(3_600_000)
const runs = Number(process.env.SENDER_RUNS ?? 2000)
const firstSeed = Number(process.env.SENDER_SEED ?? 1)
/** Runs that are under way together, so that none waits while another one's server is silent. */
const concurrency = 48

async function runAll(server: FaultyServer, first: number, count: number, directory: string) {
  const total = { sent: 0, dropped: 0, stored: 0, requests: 0 }
  const seeds = Array.from({ length: count }, (_, i) => first + i)
  await runParallel(seeds, concurrency, async (seed) => {
    const report = await runSender(server, seed, directory)
    for (const name of ['sent', 'dropped', 'stored', 'requests'] as const) total[name] += report[name]
  })
  return total
}

t.test(`in ${runs} runs, what was not dropped with a reason is stored once and in order`, async (t) => {
  const perServer = 500
  const met = new Set<string>()
  for (let done = 0; done < runs; done += perServer) {
    const server = await openFaultyServer(openMemoryStore())
    t.teardown(server.close)
    const total = await runAll(server, firstSeed + done, Math.min(perServer, runs - done), t.testdir())
    t.comment(JSON.stringify(total))
    t.ok(total.stored > total.sent / 2 && total.dropped > 0)
    for (const name of Object.keys(server.met)) met.add(name)
  }
  t.strictSame([...met].sort(), [...faultNames].sort(), 'every fault was met')
})

t.test('the same with a store on disk', async (t) => {
  const directory = t.testdir()
  const server = await openFaultyServer(await openLmdbStore(join(directory, 'store')))
  t.teardown(server.close)
  const total = await runAll(server, 5_000_000, 30, directory)
  t.ok(total.stored > total.sent / 2)
})
