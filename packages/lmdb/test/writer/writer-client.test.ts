import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Worker } from 'node:worker_threads'
import { createIngest, digestOf, type IngestError } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { openLmdbStoreWith } from '@ingest/lmdb/internal'
import t, { type Test } from 'tap'
import { type LmdbStoreOptions, openLmdbStore as openFromSource } from '../../src/open-lmdb-store.ts'
import { startStoreProcess } from '../store-process.ts'

const notLinux = process.platform !== 'linux' && 'who has a file open is known on Linux only'
const idsOf = (name: string | number, count = 20) => Array.from({ length: count }, (_, i) => `${name}-${i}`)
const batchOf = (...eventIds: string[]) => ({ events: eventIds.map((eventId) => ({ projectId: 'p', eventId })) })
const project = (createdAt: number) => ({ projectId: 'p', createdAt, keys: [] })

t.test('concurrent updates of three processes lose none', async (t) => {
  const directory = t.testdir()
  const processes = await Promise.all([0, 1, 2].map(() => startStoreProcess(directory)))
  const counts = await Promise.all(
    processes.flatMap((each) => Array.from({ length: 20 }, () => each.ask('count') as Promise<number>)),
  )
  t.strictSame(
    counts.sort((a, b) => a - b),
    Array.from({ length: 60 }, (_, i) => i + 1),
  )
  await Promise.all(processes.map((each) => each.kill()))
})

t.test('an error of a decision does not fail the store, whatever its code', async (t) => {
  const store = await openFromSource(t.testdir())
  const thrown = Object.assign(new Error('no'), { code: 5 })
  const decided = store.updateEntry('project', 'p', () => {
    throw thrown
  })
  t.equal(await decided.catch((error) => error), thrown)
  t.equal(await store.entry('project', 'p'), undefined)
  await store.check()
  await store.close()
})

for (const [from, open] of Object.entries({ source: openFromSource, build: openLmdbStore })) {
  t.test(
    `an operation of several steps that has begun is finished before the store closes, from ${from}`,
    async (t) => {
      const directory = t.testdir()
      const store = await open(directory)
      const ingest = createIngest({ store })
      const begun = [
        // the first of a project, which has no number yet
        ...['a', 'b'].map((eventId) => ingest.project('p').submitBatch(batchOf(eventId))),
        ...Array.from({ length: 10 }, () =>
          store.updateEntry('project', 'p', (before) => ({
            entry: project((before?.createdAt ?? 0) + 1),
            result: undefined,
          })),
        ),
      ]
      await Promise.all([store.close(), ...begun])
      const again = await open(directory)
      t.same(await again.known('p', ['a', 'b']), [true, true])
      t.equal((await again.entry('project', 'p'))?.createdAt, 10)
      await again.close()
    },
  )
}

for (const environment of ['events', 'ids', 'chunks']) {
  for (const file of ['data.mdb', 'lock.mdb']) {
    t.test(`${environment}/${file} that is deleted while it is open stops acknowledgements`, async (t) => {
      const directory = t.testdir()
      const fatal: string[] = []
      const store = await openLmdbStore(directory, { onFatal: ({ code }) => fatal.push(code) })
      const ingest = createIngest({ store })
      await ingest.project('p').submitBatch(batchOf('before'))
      const bytes = Buffer.from('chunk')
      const chunks = [{ digest: digestOf(bytes), size: bytes.length }]
      const manifest = { contentType: 'text/plain', size: bytes.length, digest: digestOf(bytes), chunks }
      await ingest.project('p').publishMap({ placeId: '1', buildId: 'b', manifest })
      rmSync(join(directory, environment, file))
      const write: Promise<unknown> =
        environment === 'chunks'
          ? // its thread starts with this, when the file is gone already
            ingest.project('p').putChunks([{ digest: digestOf(bytes), bytes }])
          : ingest.project('p').submitBatch(batchOf('after'))
      await t.rejects(write, { code: 'store-failed', message: 'deleted or replaced' })
      t.strictSame(fatal, ['store-failed'])
      await ingest.close()
    })
  }
}

t.test(
  'a second process cannot open a store whose lock file is gone under a running one',
  { skip: notLinux },
  async (t) => {
    const directory = t.testdir()
    const first = await startStoreProcess(directory)
    await first.submit(['before'])
    rmSync(join(directory, 'events', 'lock.mdb'))
    await t.rejects(startStoreProcess(directory), { code: 'store-locked' })
    await t.rejects(first.submit(['after']), { code: 'store-failed' })
    await first.kill()
    const second = await startStoreProcess(directory)
    t.strictSame(await second.known(['before']), [true])
    await second.kill()
  },
)

t.test('an update blocks no reader while another process writes', async (t) => {
  const directory = t.testdir()
  const store = await openLmdbStore(directory)
  await store.updateEntry('project', 'p', () => ({ entry: project(1), result: undefined }))
  const holder = await startStoreProcess(directory)
  await holder.ask('hold')
  let settled = false
  const update = store
    .updateEntry('project', 'p', () => ({ entry: project(2), result: 'done' }))
    .finally(() => {
      settled = true
    })
  await new Promise(setImmediate)
  t.equal((await store.entry('project', 'p'))?.createdAt, 1)
  t.notOk(settled, 'and it waits itself')
  await holder.kill()
  t.equal(await update, 'done')
  t.equal((await store.entry('project', 'p'))?.createdAt, 2)
  await store.close()
})

/** A store with one event, whose write lock another process holds. */
async function openHeld(t: Test, options: LmdbStoreOptions = {}) {
  const directory = t.testdir()
  const store = await openLmdbStore(directory, options)
  const ingest = createIngest({ store })
  await ingest.project('p').submitBatch(batchOf('before'))
  const holder = await startStoreProcess(directory)
  await holder.ask('hold')
  return { store, ingest, holder }
}

t.test('a store that has failed refuses everything from then on, and can be closed', async (t) => {
  const directory = t.testdir()
  const fatal: string[] = []
  const store = await openLmdbStore(directory, { onFatal: ({ code }) => fatal.push(code) })
  const ingest = createIngest({ store })
  await ingest.project('p').submitBatch(batchOf('before'))
  rmSync(join(directory, 'events', 'lock.mdb'))
  const failed = { code: 'store-failed' }
  await t.rejects(ingest.project('p').submitBatch(batchOf('after')), failed)
  await t.rejects(ingest.project('p').submitBatch(batchOf('later')), failed)
  await t.rejects(store.known('p', ['before']), failed)
  await t.rejects(store.find('p', 'before'), failed)
  await t.rejects(store.entry('project', 'p'), failed)
  await t.rejects(
    store.updateEntry('project', 'p', () => ({ result: 1 })),
    failed,
  )
  await t.rejects(store.check(), failed)
  t.strictSame(fatal, ['store-failed'])
  await store.close()
})

t.test('queued writes are bounded: the rest is refused at once, and loses nothing', async (t) => {
  const { store, ingest, holder } = await openHeld(t)
  const body = (i: number) => ({ events: [{ projectId: 'p', eventId: `wait-${i}`, pad: 'x'.repeat(250_000) }] })
  const settled = Array.from({ length: 400 }, (_, i) => ingest.project('p').submitBatch(body(i)))
  const outcomes = Promise.allSettled(settled)
  await t.rejects(settled.at(-1) as Promise<unknown>, { code: 'overloaded', retryAfterSeconds: 1 })
  await holder.kill()
  const stored = (await outcomes).filter(({ status }) => status === 'fulfilled').length
  t.ok(stored >= 200 && stored < 400, `${stored} of 400 were stored once the lock was free`)
  t.equal((await store.totals('p')).events, stored + 1)
  await ingest.close()
})

t.test('queued lookups are bounded as well', async (t) => {
  const { store, ingest, holder } = await openHeld(t)
  const blocked = ingest.project('p').submitBatch(batchOf('blocked'))
  await new Promise(setImmediate)
  const eventIds = idsOf('x'.repeat(250), 100)
  const asked = Array.from({ length: 4000 }, () => store.known('p', eventIds))
  const outcomes = Promise.allSettled(asked)
  await t.rejects(asked.at(-1) as Promise<unknown>, { code: 'overloaded' })
  await holder.kill()
  t.equal((await blocked).accepted, 1)
  const answered = (await outcomes).filter(({ status }) => status === 'fulfilled').length
  t.ok(answered >= 2000 && answered < 4000, `${answered} of 4,000`)
  await ingest.close()
})

t.test('waiting for the index does not count towards the commit timeout', async (t) => {
  const directory = t.testdir()
  const fatal: string[] = []
  const store = await openLmdbStoreWith(
    directory,
    { commitTimeoutMs: 2000, onFatal: ({ code }) => fatal.push(code) },
    { entriesPerFlush: 20 },
  )
  const ingest = createIngest({ store })
  await ingest.project('p').submitBatch(batchOf('first'))
  const holder = await startStoreProcess(directory)
  await holder.ask('hold-ids')
  let done = 0
  const all = Array.from({ length: 20 }, async (_, i) => {
    for (let j = 0; j < 5; j++, done++) await ingest.project('p').submitBatch(batchOf(...idsOf(`${i}-${j}`)))
  })
  const outcomes = Promise.allSettled(all)
  // longer than any commit may take
  await new Promise((resolve) => setTimeout(resolve, 3000))
  t.ok(done < 100, `${done} of 100 went in`)
  await holder.kill()
  t.ok((await outcomes).every(({ status }) => status === 'fulfilled'))
  t.strictSame(fatal, [])
  await ingest.close()
})

/** Opens a store, and returns its writer thread too. */
async function openWithThread(t: Test) {
  const fatal: IngestError[] = []
  let worker: Worker | undefined
  process.once('worker', (started) => {
    worker = started
  })
  const store = await openLmdbStore(t.testdir(), { onFatal: (error) => fatal.push(error) })
  await createIngest({ store }).project('p').submitBatch(batchOf('before'))
  return { store, fatal, worker: worker as unknown as Worker }
}

const ends = [
  ['is ended from outside', 'has ended', (worker: Worker) => worker.terminate()],
  ['receives a malformed message', 'null', (worker: Worker) => worker.postMessage(null)],
] as const

for (const [what, message, end] of ends) {
  t.test(`a thread that ${what} fails the store, with all queued and later requests`, async (t) => {
    const { store, fatal, worker } = await openWithThread(t)
    const ingest = createIngest({ store })
    end(worker)
    const waiting = ingest.project('p').submitBatch(batchOf('waiting'))
    await t.rejects(waiting, { code: 'store-failed' })
    await t.rejects(ingest.project('p').submitBatch(batchOf('later')), { code: 'store-failed' })
    await t.rejects(store.check(), { code: 'store-failed' })
    t.match(fatal, [{ code: 'store-failed', message }])
    t.equal(fatal.length, 1)
    await store.close()
  })
}

t.test('a thread that cannot start refuses the store', async (t) => {
  const directory = t.testdir({ ids: 'a file' })
  await t.rejects(openLmdbStore(directory), { code: 'invalid-argument' })
  await t.rejects(openFromSource(directory), { code: 'invalid-argument' })
})
