import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { createIngest, type IngestError } from '@ingest/core'
import t, { type Test } from 'tap'
import { compileLibrary, whyNotPreloaded } from '../../../soak/src/faults/preload-library.js'
import { openEnvironment } from '../../src/environment/environment.ts'
import { closeRoot, openRoot, readersOf } from '../../src/environment/root.ts'
import type { LmdbStoreOptions } from '../../src/open-lmdb-store.ts'
import { openLmdbStore } from '../built-store.ts'
import { noStrace, type StoreProcess, startStoreProcess } from '../store-process.ts'

// the tests wait for lock timeouts, each on its own store: run them in parallel
t.jobs = 4

const notLinux = process.platform !== 'linux' && 'the holder of a lock is known on Linux only'
const batchOf = (eventId: string) => ({ events: [{ projectId: 'p', eventId }] })
const update = () => ({ entry: { projectId: 'p', createdAt: 1, keys: [] }, result: 'done' })

/** A store with one event whose write lock another process holds. */
async function openHeld(t: Test, options: LmdbStoreOptions = {}) {
  const directory = t.testdir()
  const fatal: string[] = []
  const store = await openLmdbStore(directory, { onFatal: ({ code }) => fatal.push(code), ...options })
  const ingest = createIngest({ store })
  await ingest.project('p').submitBatch(batchOf('before'))
  const holder = await startStoreProcess(directory)
  t.teardown(holder.kill)
  await holder.ask('hold')
  return { directory, store, ingest, holder, fatal }
}

t.test('the process that holds the write lock is known, and whether it is stopped', { skip: notLinux }, async (t) => {
  const directory = t.testdir()
  const holder = await startStoreProcess(directory)
  const { lockHolder, write, close } = await openEnvironment(join(directory, 'events'))
  t.equal(lockHolder(), undefined)
  t.equal(write(lockHolder), undefined, 'it is not this process')
  await holder.ask('hold')
  t.strictSame(lockHolder(), { pid: holder.pid, isStopped: false })
  await holder.stop()
  t.strictSame(lockHolder(), { pid: holder.pid, isStopped: true })
  await holder.kill()
  t.equal(lockHolder(), undefined)
  await close()
})

t.test(
  'a store is read, and not opened, while a stopped process holds the write lock',
  { skip: notLinux },
  async (t) => {
    const { directory, ingest, holder } = await openHeld(t)
    await ingest.close()
    await holder.kill()
    // in processes of their own: a thread that waits for the lock could not be ended
    const reader = await startStoreProcess(directory)
    const stopped = await startStoreProcess(directory)
    t.teardown(stopped.kill)
    await stopped.ask('hold')
    await stopped.stop()
    t.strictSame(await reader.known(['before', 'none']), [true, false])
    t.strictSame(await reader.call('listMaps', {}), { maps: [], next: null })
    const locked = { code: 'store-locked' }
    await Promise.all([
      t.rejects(reader.submit(['after']), locked),
      t.rejects(reader.ask('check'), locked),
      t.rejects(startStoreProcess(directory), locked, 'an opening could undo its commit'),
    ])
    t.strictSame(reader.fatal, [])
    t.equal(await reader.end(), 0, 'it exits by itself')
  },
)

t.test('while another process holds the write lock, requests are rejected and never carried out', async (t) => {
  const { store, ingest, holder, fatal } = await openHeld(t, { commitTimeoutMs: 3000 })
  const project = ingest.project('p')
  const locked = { code: 'store-locked', retryAfterSeconds: 5 }
  const waiting: Promise<unknown>[] = [
    project.submitBatch(batchOf('waiting')),
    ingest.keys.create('p'),
    store.erase('p', ['before']),
    project.publishMap({ placeId: '1', buildId: 'b', map: {} }),
  ]
  for (const each of waiting) await t.rejects(each, locked)
  await t.rejects(project.submitBatch(batchOf('later')), locked)
  await t.rejects(store.updateEntry('project', 'p', update), locked)
  await t.rejects(store.check(), locked)
  t.equal((await store.totals('p')).events, 1, 'reads work')
  await holder.kill()
  const isLocked = () =>
    store.check().then(
      () => false,
      (error) => {
        if (error.code !== 'store-locked') throw error
        return true
      },
    )
  while (await isLocked()) await nextTurn()
  await project.submitBatch(batchOf('after'))
  t.strictSame(await store.known('p', ['before', 'waiting', 'later', 'after']), [true, false, false, true])
  t.equal((await store.find('p', 'before'))?.erased, undefined)
  t.strictSame(await ingest.keys.list('p'), [])
  t.strictSame((await project.listMaps({})).maps, [])
  t.equal(await store.updateEntry('project', 'p', update), 'done')
  t.strictSame(fatal, [])
  await ingest.close()
})

t.test('a store closes while another process holds the write lock', { skip: notLinux }, async (t) => {
  const { ingest, fatal } = await openHeld(t, { commitTimeoutMs: 3000 })
  const waiting = ingest.project('p').submitBatch(batchOf('waiting'))
  const closed = ingest.close()
  await t.rejects(waiting, { code: 'store-locked' })
  await closed
  t.strictSame(fatal, ['store-locked'], 'the process cannot exit by itself')
})

t.test(
  'a process that closes its store does not end before it is closed, though the lock becomes free',
  {
    skip: notLinux,
  },
  async (t) => {
    const directory = t.testdir()
    const program = fileURLToPath(new URL('closing-program.js', import.meta.url))
    const child = spawn(process.execPath, [program, directory], { stdio: ['pipe', 'pipe', 'inherit'] })
    const ended = once(child, 'exit')
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    t.equal((await lines.next()).value, 'open')
    const holder = await startStoreProcess(directory)
    t.teardown(holder.kill)
    await holder.ask('hold')
    child.stdin.end('submit\n')
    t.equal((await lines.next()).value, 'store-locked')
    await holder.kill()
    t.equal((await lines.next()).value, 'closed')
    t.strictSame(await ended, [0, null])
  },
)

t.test(
  'openings and closings do not block the event loop while another process is inside the gate',
  { skip: notLinux },
  async (t) => {
    const { directory, ingest, holder } = await openHeld(t)
    await holder.kill()
    const environment = await openEnvironment(join(directory, 'events'))
    const next = await startStoreProcess(directory)
    t.teardown(next.kill)
    await next.ask('hold')
    t.ok(environment.table('log').getCount(), 'its tables were opened with it')
    let turns = 0
    const timer = setInterval(() => turns++, 1)
    await t.rejects(openEnvironment(join(directory, 'events')), { code: 'store-locked' })
    t.ok(turns > 10)
    turns = 0
    await environment.close()
    t.ok(turns > 10)
    clearInterval(timer)
    await next.kill()
    await ingest.close()
  },
)

t.test('a process that exits while its thread waits for the gate ends', { skip: notLinux }, async (t) => {
  const { directory, ingest, holder } = await openHeld(t)
  await ingest.close()
  await holder.kill()
  const waiting = await startStoreProcess(directory)
  const next = await startStoreProcess(directory)
  t.teardown(next.kill)
  await next.ask('hold')
  await t.rejects(waiting.submit(['waiting']), { code: 'store-locked' })
  t.equal(await waiting.exit(), 'SIGKILL')
  await next.kill()
  const last = await startStoreProcess(directory)
  t.strictSame(await last.known(['before', 'waiting']), [true, false])
  await last.submit(['after'])
  t.equal(await last.exit(), 0)
})

const noSlowSyncs = whyNotPreloaded() ?? false
const slowSyncs = join(t.testdir({}), 'slow-syncs.so')
if (!noSlowSyncs) await compileLibrary(fileURLToPath(new URL('../slow-syncs.c', import.meta.url)), slowSyncs)

/** The batches of a process in flight, which are committed together; the next ones arrive during that commit. */
const groupSize = 6

interface Writers {
  processes: number
  /** How much longer each sync takes. */
  syncMs: number
  /** How many batches they store together. */
  total: number
  commitTimeoutMs?: number
}

/**
 * Lets processes with slow commits append repeatedly to one store. Resolves with the process of each event, in the order of
 * the commits.
 */
async function appendTogether(t: Test, { processes: count, syncMs, total, ...options }: Writers): Promise<string[]> {
  const directory = t.testdir()
  await (await openLmdbStore(directory)).close()
  const env = { LD_PRELOAD: slowSyncs, SYNC_MS: String(syncMs) }
  const starting = Array.from({ length: count }, () => startStoreProcess(directory, { ...options, env }))
  const processes = await Promise.all(starting)
  for (const each of processes) t.teardown(each.kill)
  let stored = 0
  const append = async (process: StoreProcess, name: string) => {
    for (let n = 0; stored < total; n++, stored++) await process.submit([`${name}-${n}`])
  }
  const streams = Array.from({ length: groupSize }, (_, stream) => stream)
  await Promise.all(processes.flatMap((each, i) => streams.map((stream) => append(each, `${i}-${stream}`))))
  t.strictSame(
    processes.flatMap(({ fatal }) => fatal),
    [],
  )
  const store = await openLmdbStore(directory)
  const writers: string[] = []
  for await (const page of store.read('p'))
    for (const { bytes } of page) writers.push(JSON.parse(Buffer.from(bytes).toString()).eventId[0])
  await store.close()
  return writers
}

t.test('processes with slow commits append in turn', { skip: noSlowSyncs }, async (t) => {
  const writers = (await appendTogether(t, { processes: 3, syncMs: 30, total: 400 })).join('')
  const runs = writers.match(/(.)\1*/g) ?? []
  // a busy machine may wake a process too late for its turn
  const outOfTurn = runs.reduce((sum, { length }) => sum + Math.max(0, length - groupSize), 0)
  t.ok(outOfTurn < writers.length / 10, `${outOfTurn} in ${writers}`)
})

t.test('no batch is refused while others are committed, however many wait', { skip: noSlowSyncs }, async (t) => {
  const writers = await appendTogether(t, { processes: 5, syncMs: 700, total: 30, commitTimeoutMs: 2500 })
  t.equal(new Set(writers).size, 5)
})

for (const signal of ['SIGKILL', 'SIGSTOP'] as const) {
  t.test(
    `commits go on beside a process that met ${signal} while it waited to close`,
    { skip: notLinux },
    async (t) => {
      const directory = t.testdir()
      const [live, holder, waiting] = await Promise.all([
        startStoreProcess(directory, { commitTimeoutMs: 1000 }),
        startStoreProcess(directory),
        startStoreProcess(directory),
      ])
      for (const each of [live, holder, waiting]) t.teardown(each.kill)
      const gate = openRoot(join(directory, 'events', 'gate'), 2 ** 20)
      const isWaiting = () => readersOf(gate).some(({ pid, transaction }) => pid === waiting.pid && transaction >= 0)
      await holder.ask('hold')
      const ended = waiting.end().catch(() => 'killed')
      while (!isWaiting()) await nextTurn()
      // a signal is received by one thread first, while others go on
      if (signal === 'SIGSTOP') await waiting.stop()
      else await waiting.kill()
      await holder.kill()
      for (let i = 1; i <= 30; i++) t.equal(await live.ask('count'), i)
      t.strictSame(live.fatal, [])
      t.equal(isWaiting(), signal === 'SIGSTOP')
      if (signal === 'SIGSTOP') process.kill(waiting.pid, 'SIGCONT')
      t.equal(await ended, signal === 'SIGSTOP' ? 0 : 'killed')
      t.equal(await live.end(), 0)
      closeRoot(gate)
    },
  )
}

t.test('a commit that hangs fails the store', { skip: noStrace }, async (t) => {
  const directory = t.testdir()
  await (await openLmdbStore(directory)).close()
  const child = await startStoreProcess(directory, {
    commitTimeoutMs: 1000,
    inject: ['fdatasync:delay_enter=600000000:when=3+'],
  })
  let failed: IngestError | undefined
  for (let i = 0; !failed && i < 10; i++) {
    await child.submit([`${i}`]).catch((error) => {
      failed = error
    })
  }
  t.equal(failed?.code, 'store-failed')
  t.strictSame(child.fatal, ['store-failed'])
  await child.kill()
})
