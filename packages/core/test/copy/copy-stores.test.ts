import t, { type Test } from 'tap'
import { type CopyOptions, copyStores } from '../../src/copy/copy-stores.ts'
import { IngestError } from '../../src/error.ts'
import { batchBytesMax } from '../../src/events/batch.ts'
import { createIngest } from '../../src/ingest.ts'
import { openMemoryStore } from '../../src/memory/memory-store.ts'
import type { Store } from '../../src/store.ts'
import {
  allContentsOf,
  alpha,
  beta,
  chunkOf,
  contentsOf,
  createClock,
  fillStore,
  manifestOf,
  storeEvents,
} from './filled-store.ts'

interface CopySettings extends Partial<CopyOptions> {
  signal?: AbortSignal
}

async function copy(
  source: Store,
  target: Store,
  { signal = new AbortController().signal, ...options }: CopySettings = {},
) {
  const projectIds = await source.projects()
  return copyStores(source, target, { projectIds, hasOneOrder: false, signal, ...options })
}

/** Asserts that a copy fails with a failure like `pattern`. */
async function fails(t: Test, copied: Promise<unknown>, pattern: object): Promise<void> {
  const error = await copied.then(
    () => undefined,
    (error) => error,
  )
  t.ok(error instanceof IngestError, error?.stack)
  t.match(error, pattern)
}

async function openFilled(): Promise<Store> {
  const store = openMemoryStore()
  await fillStore(store)
  return store
}

t.test('a copy has the events with their times, freezes, maps with their chunks, and keys', async (t) => {
  for (const hasOneOrder of [false, true]) {
    const [source, target] = [await openFilled(), openMemoryStore()]
    const copied = await copy(source, target, { hasOneOrder })
    t.strictSame(await allContentsOf(target), await allContentsOf(source))
    t.match(copied, [
      { projectId: alpha, events: 65, copied: 65, maps: 3, keys: 2 },
      { projectId: beta, events: 60, copied: 60, maps: 0, keys: 0 },
      { projectId: 'only-a-key', events: 0, copied: 0, maps: 0, keys: 1 },
    ])
    await t.test('again, it copies nothing', async (t) => {
      const again = await copy(source, target, { hasOneOrder })
      t.strictSame(
        again,
        copied.map((project) => ({ ...project, copied: 0 })),
      )
      t.strictSame(await allContentsOf(target), await allContentsOf(source))
    })
    await t.test('it follows the source', async (t) => {
      await storeEvents(source, 'later', 20, createClock(1_700_000_009_000))
      const now = createClock(1_700_000_010_000)
      const { publishMap, putChunk } = createIngest({ store: source, now }).project(alpha)
      await putChunk(manifestOf('e').digest, chunkOf('e'))
      await publishMap({ placeId: '9', buildId: 'open', map: {} })
      t.match(await copy(source, target, { hasOneOrder }), [
        { events: 85, copied: 20, maps: 4 },
        { events: 80, copied: 20 },
        {},
      ])
      t.strictSame(await allContentsOf(target), await allContentsOf(source))
    })
  }
})

t.test('a target with one order gets the events of all projects in the order of their receipt', async (t) => {
  const [source, target] = [await openFilled(), openMemoryStore()]
  const received: number[] = []
  const append: Store['append'] = (projectId, batch) => {
    received.push(batch.receivedAt)
    return target.append(projectId, batch)
  }
  await copy(source, { ...target, append }, { hasOneOrder: true })
  t.ok(received.length > 30)
  t.strictSame(
    received,
    received.toSorted((a, b) => a - b),
  )
})

t.test('an interrupted copy is continued, wherever it stopped', async (t) => {
  const source = await openFilled()
  const expected = await allContentsOf(source)
  let isDone = false
  for (let steps = 1; !isDone; steps += 5) {
    const target = openMemoryStore()
    const controller = new AbortController()
    let count = 0
    const onProgress = () => {
      if (++count === steps) controller.abort(new Error('stopped'))
    }
    isDone = await copy(source, target, { signal: controller.signal, onProgress }).then(
      () => true,
      (error) => {
        t.match(error, { message: 'stopped' })
        return false
      },
    )
    await copy(source, target)
    t.strictSame(await allContentsOf(target), expected, `stopped after ${steps} steps`)
  }
})

t.test('events of the target stay; another event under the same id fails the copy', async (t) => {
  const source = await openFilled()
  const target = openMemoryStore()
  await storeEvents(target, 'own', 1)
  await copy(source, target)
  const [all, copied] = [await contentsOf(target, beta), await contentsOf(source, beta)]
  t.strictSame(all.events.slice(1), copied.events)
  t.match(all.events[0]?.[1], /own-0/)

  const other = openMemoryStore()
  const { submitBatch } = createIngest({ store: other, now: createClock() }).project(beta)
  await submitBatch({ events: [{ projectId: beta, eventId: 'e-59', own: true }] })
  await fails(t, copy(source, other), { code: 'precondition-failed', message: /another event of the project beta/ })
  t.strictSame((await contentsOf(other, beta)).project, undefined, 'keys are written last')
})

t.test('events that were erased in the source are erased in the target', async (t) => {
  for (const hasOneOrder of [false, true]) {
    const [source, target] = [await openFilled(), openMemoryStore()]
    // the first events of their builds
    await source.erase(alpha, ['odd-3', 'e-0'])
    await copy(source, target, { hasOneOrder })
    t.strictSame(await allContentsOf(target), await allContentsOf(source))
    await source.erase(alpha, ['odd-1', 'e-59'])
    t.match(await copy(source, target, { hasOneOrder }), [{ copied: 0 }, { copied: 0 }, {}])
    t.strictSame(await allContentsOf(target), await allContentsOf(source))
  }
})

t.test('a key or a map of the target is not overwritten', async (t) => {
  const source = await openFilled()
  const withKey = openMemoryStore()
  const { record } = await createIngest({ store: withKey }).keys.create(alpha)
  await fails(t, copy(source, withKey), { code: 'precondition-failed', message: new RegExp(record.keyId) })

  const withMap = openMemoryStore()
  const { publishMap } = createIngest({ store: withMap }).project(alpha)
  await publishMap({ placeId: '1', buildId: 'build-0', map: { own: true } })
  await fails(t, copy(source, withMap), { code: 'precondition-failed', message: /is newer in the target/ })
  t.equal((await contentsOf(withMap, alpha)).project, undefined, 'keys are written last')
})

t.test('a map that the source replaces during the copy is copied in its new version', async (t) => {
  const [source, target] = [await openFilled(), openMemoryStore()]
  const { publishMap } = createIngest({ store: source }).project(alpha)
  let replacements = 0
  // the chunks of the replaced map are deleted with it
  const readChunk: Store['readChunk'] = async (...args) => {
    if (replacements++ === 0) await publishMap({ placeId: '2', buildId: 'open', map: { walls: 5 } })
    return source.readChunk(...args)
  }
  await copy({ ...source, readChunk }, target)
  t.ok(replacements > 1)
  t.strictSame(await allContentsOf(target), await allContentsOf(source))

  const always: Store['readChunk'] = async () => undefined
  await fails(t, copy({ ...source, readChunk: always }, openMemoryStore()), { code: 'source-changed' })
})

t.test('times that the target would change are refused before anything is written', async (t) => {
  const source = openMemoryStore()
  const { now } = Date
  // a store limits the times of events by the clock of the machine, which may have been ahead
  Date.now = () => now() + 3_600_000
  await storeEvents(source, 'e', 3, Date.now).finally(() => {
    Date.now = now
  })
  const target = openMemoryStore()
  await fails(t, copy(source, target), { code: 'precondition-failed', message: /in the future/ })
  t.strictSame(await target.projects(), [])

  const older = await openFilled()
  const directory = openMemoryStore()
  await storeEvents(older, 'later', 1, createClock(1_700_000_100_000))
  await copy(older, directory, { projectIds: [beta], hasOneOrder: true })
  await fails(t, copy(older, directory, { projectIds: [alpha], hasOneOrder: true }), {
    code: 'precondition-failed',
    message: /all projects of a directory at once/,
  })
  t.strictSame(await directory.projects(), [beta])
})

t.test('events that the source stores during a copy are left to the next one', async (t) => {
  const [source, target] = [await openFilled(), openMemoryStore()]
  let stored: Promise<void> | undefined
  const onProgress = () => {
    stored ??= storeEvents(source, 'later', 20, createClock(1_700_000_009_000))
  }
  t.match(await copy(source, target, { onProgress }), [{ copied: 65 }, { copied: 60 }, {}])
  await stored
  t.match(await copy(source, target), [{ copied: 20 }, { copied: 20 }, {}])
  t.strictSame(await allContentsOf(target), await allContentsOf(source))
})

t.test('merging many projects compares each group with few others', async (t) => {
  const [source, target] = [openMemoryStore(), openMemoryStore()]
  const projects = 300
  const now = createClock(1_700_000_000_000)
  const ingest = createIngest({ store: source, now })
  for (let i = 0; i < projects; i++) {
    await ingest.project(`p-${i}`).submitBatch({ events: [{ projectId: `p-${i}`, eventId: 'e' }] })
  }
  let timesRead = 0
  async function* read(...args: Parameters<Store['read']>) {
    for await (const page of source.read(...args)) {
      yield page.map(({ receivedAt, ...event }) => ({
        ...event,
        get receivedAt() {
          timesRead++
          return receivedAt
        },
      }))
    }
  }
  await copy({ ...source, read }, target, { hasOneOrder: true })
  t.ok(timesRead < 40 * projects, `${timesRead} for ${projects} projects`)
})

/** Stores batches of many projects, which begin one after another. */
async function storeMany(store: Store, from: number, to: number): Promise<void> {
  const ingest = createIngest({ store, now: createClock(1_700_000_000_000 + 1000 * from) })
  for (let i = from; i < to; i++) {
    const projectId = `p-${i % (2 + Math.floor(i / 7))}`
    await ingest.project(projectId).submitBatch({ events: [{ projectId, eventId: `e-${i}` }] })
  }
}

async function openMany(): Promise<Store> {
  const store = openMemoryStore()
  await storeMany(store, 0, 200)
  return store
}

t.test('many batches are in flight, several of one project only if the target keeps their order', async (t) => {
  const source = await openMany()
  for (const [hasOneOrder, least, most] of [
    [false, 5, 1],
    [true, 50, Number.POSITIVE_INFINITY],
  ] as const) {
    const target = openMemoryStore()
    const inFlight: string[] = []
    let inFlightMax = 0
    let ofProjectMax = 0
    const append: Store['append'] = async (projectId, batch) => {
      inFlight.push(projectId)
      inFlightMax = Math.max(inFlightMax, inFlight.length)
      ofProjectMax = Math.max(ofProjectMax, inFlight.filter((each) => each === projectId).length)
      try {
        const result = await target.append(projectId, batch)
        await new Promise(setImmediate)
        return result
      } finally {
        inFlight.splice(inFlight.indexOf(projectId), 1)
      }
    }
    await copy(source, { ...target, append }, { hasOneOrder })
    t.ok(inFlightMax >= least, `${inFlightMax} in flight`)
    t.ok(ofProjectMax <= most, `${ofProjectMax} of a project`)
  }
})

t.test('a copy that fails rejects when nothing of it is in flight', async (t) => {
  const source = await openMany()
  const target = openMemoryStore()
  let inFlight = 0
  const append: Store['append'] = async (projectId, batch) => {
    if (projectId === 'p-0') throw new Error('no')
    inFlight++
    await new Promise(setImmediate)
    const result = await target.append(projectId, batch)
    inFlight--
    return result
  }
  await t.rejects(copy(source, { ...target, append }), { message: 'no' })
  t.equal(inFlight, 0)
})

t.test('a build whose first event is erased stays frozen, also from a store with short pages of builds', async (t) => {
  const [source, target] = [openMemoryStore(), openMemoryStore()]
  const idsAt = (time: number) => Array.from({ length: 100 }, (_, i) => `${time}-${i}`)
  for (let time = 0; time < 11; time++) {
    const { submitBatch } = createIngest({ store: source, now: () => time }).project(beta)
    await submitBatch({ events: idsAt(time).map((id) => ({ projectId: beta, eventId: id, buildId: id })) })
  }
  await source.erase(beta, idsAt(0))
  const builds: Store['builds'] = async (projectId, { limit, ...selection }) => {
    const found = await source.builds(projectId, { ...selection, limit: limit - 1 })
    const last = found.builds.length === limit - 1 ? found.builds.at(-1) : undefined
    return { ...found, ...(last && { last }) }
  }
  await copy({ ...source, builds }, target)
  t.strictSame(await target.builds(beta, { limit: 2_000 }), await source.builds(beta, { limit: 2_000 }))
})

t.test('a copied batch is within the limit of a batch, also with tombstones of long ids', async (t) => {
  const [source, memory] = [openMemoryStore(), openMemoryStore()]
  const { project, eraseEvents } = createIngest({ store: source, now: () => 1_000 })
  const start = '{"projectId":"p","eventId":"large","x":"'
  const [erased, large] = ['日'.repeat(85), `${start}${'x'.repeat(261_953 - start.length)}"}`]
  await project('p').submitBatch({ events: [{ projectId: 'p', eventId: erased }] })
  await project('p').submitBatch(Buffer.from(`{"events":[${large}]}`))
  await eraseEvents('p', { path: '/eventId', value: erased })
  const bodies: number[] = []
  const target: Store = {
    ...memory,
    append(projectId, batch) {
      bodies.push(batch.body.length)
      return memory.append(projectId, batch)
    },
  }
  await copy(source, target)
  t.match(await target.totals('p'), { events: 2 })
  t.ok(Math.max(...bodies) <= batchBytesMax, String(bodies))
})
