import { join } from 'node:path'
import { openMemoryStore, type Store } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import t from 'tap'
import { runParallel } from '../src/upload/upload-map.ts'
import { faultNames, openFaultyServer, runSender } from './sender-runs.ts'

// more seeds: INGEST_SEEDS=2000; repeat a failure: INGEST_SEEDS=1 INGEST_FIRST_SEED=1234
t.setTimeout(3_600_000)
const runs = Number(process.env.INGEST_SEEDS ?? 100)
const firstSeed = Number(process.env.INGEST_FIRST_SEED ?? 1)
/** Concurrent runs, so that the real time-outs of silent servers overlap. */
const concurrency = 48

/** Runs `count` seeds on a server of their own, which bounds the memory. */
async function runAll(store: Store, first: number, count: number, directory: string) {
  const server = await openFaultyServer(store)
  const total = { sent: 0, dropped: 0, stored: 0, requests: 0 }
  const seeds = Array.from({ length: count }, (_, i) => first + i)
  try {
    await runParallel(seeds, concurrency, async (seed) => {
      const report = await runSender(server, seed, directory)
      for (const name of ['sent', 'dropped', 'stored', 'requests'] as const) total[name] += report[name]
    })
  } finally {
    await server.close()
  }
  return { ...total, met: Object.keys(server.met) }
}

const seeds = `INGEST_SEEDS=${runs} INGEST_FIRST_SEED=${firstSeed}`
t.test(`every event that was not dropped is stored once, in order (${seeds})`, async (t) => {
  const perServer = 500
  const met = new Set<string>()
  for (let done = 0; done < runs; done += perServer) {
    const count = Math.min(perServer, runs - done)
    const total = await runAll(openMemoryStore(), firstSeed + done, count, t.testdir())
    if (count >= 100) t.ok(total.stored > total.sent / 2 && total.dropped > 0)
    for (const name of total.met) met.add(name)
  }
  if (runs >= 100) t.strictSame([...met].sort(), [...faultNames].sort(), 'every fault occurred')
})

t.test('the same holds with a store on disk', async (t) => {
  const directory = t.testdir()
  const total = await runAll(await openLmdbStore(join(directory, 'store')), 5_000_000, 30, directory)
  t.ok(total.stored > total.sent / 2)
})

// Node 20 can loop endlessly in `Environment::CleanupHandles` at exit after many aborted connections; process.exit()
// skips this cleanup. tap writes its results on the first 'beforeExit'.
process.once('beforeExit', () => process.once('beforeExit', () => process.exit()))
