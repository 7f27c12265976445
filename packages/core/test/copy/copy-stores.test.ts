import t, { type Test } from 'tap'
import { type CopyOptions, type CopyProgress, copyStores } from '../../src/copy/copy-stores.ts'
import { IngestError } from '../../src/error.ts'
import type { StoredEvent } from '../../src/events/event-store.ts'
import { createIngest } from '../../src/ingest.ts'
import type { BuildEntry } from '../../src/maps/map-store.ts'
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
      { projectId: alpha, events: 65, copied: 65, builds: 5, maps: 4, keys: 2, digest: /^sha256:/ },
      { projectId: beta, events: 60, copied: 60, builds: 3, maps: 0, keys: 0 },
      { projectId: 'only-a-key', events: 0, copied: 0, builds: 0, maps: 0, keys: 1 },
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
        { events: 85, copied: 20, maps: 5 },
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
    const onProgress = ({ step }: CopyProgress) => {
      if (++count === steps) controller.abort(new Error(`stopped while ${step}`))
    }
    isDone = await copy(source, target, { signal: controller.signal, onProgress }).then(
      () => true,
      (error) => {
        t.match(error, { message: /^stopped while/ })
        return false
      },
    )
    await copy(source, target)
    t.strictSame(await allContentsOf(target), expected, `stopped after ${steps} steps`)
  }
})

t.test('a target with other events is refused, with nothing written', async (t) => {
  const source = await openFilled()
  const ends: Record<string, (store: Store) => Promise<unknown>> = {
    'another event': (store) => storeEvents(store, 'own', 1),
    'another time': (store) => storeEvents(store, 'e', 60, createClock(1_700_000_000_001)),
    'another order': async (store) => {
      const { submitBatch } = createIngest({ store, now: createClock() }).project(beta)
      await submitBatch({ events: [{ projectId: beta, eventId: 'e-1', i: 0 }] })
    },
    'more events': async (store) => {
      await copy(source, store)
      await storeEvents(store, 'own', 1)
    },
  }
  for (const [name, prepare] of Object.entries(ends)) {
    const target = openMemoryStore()
    await prepare(target)
    const before = await allContentsOf(target)
    await fails(t, copy(source, target), { code: 'precondition-failed', message: /has other events in the/ })
    t.strictSame(await allContentsOf(target), before, name)
  }
})

t.test('a key or a map of the target is not overwritten', async (t) => {
  const source = await openFilled()
  const withKey = openMemoryStore()
  const { record } = await createIngest({ store: withKey }).keys.create(alpha)
  await fails(t, copy(source, withKey), { code: 'precondition-failed', message: new RegExp(record.keyId) })

  for (const id of [
    { placeId: '1', buildId: 'build-0' },
    { placeId: '99', buildId: 'own' },
  ]) {
    const withMap = openMemoryStore()
    await createIngest({ store: withMap })
      .project(alpha)
      .publishMap({ ...id, map: { own: true } })
    await fails(t, copy(source, withMap), { code: 'precondition-failed', message: /has a map in the target/ })
    t.match((await contentsOf(withMap, alpha)).project, undefined, 'keys are written last')
  }
})

t.test('an upload that the source no longer has is dropped', async (t) => {
  const [source, target] = [await openFilled(), openMemoryStore()]
  const { publishMap } = createIngest({ store: target }).project(alpha)
  await publishMap({ placeId: '99', buildId: 'own', manifest: manifestOf('z') })
  await copy(source, target)
  t.strictSame(await allContentsOf(target), await allContentsOf(source))
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
  await copy(older, directory, { projectIds: [beta], hasOneOrder: true })
  await fails(t, copy(older, directory, { projectIds: [alpha], hasOneOrder: true }), {
    code: 'precondition-failed',
    message: /copy all projects at once to an empty directory/,
  })
  t.strictSame(await directory.projects(), [beta])
})

t.test('what the source stores during a copy is left to the next one', async (t) => {
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

t.test('events that another process stores in the target are noticed', async (t) => {
  const [source, target] = [await openFilled(), openMemoryStore()]
  const append: Store['append'] = async (projectId, batch) => {
    const result = await target.append(projectId, batch)
    await storeEvents(target, 'e', 60)
    return result
  }
  await fails(t, copy(source, { ...target, append }), { code: 'precondition-failed', message: /Another process/ })
})

/** Stores that keep something else than they were given. */
const broken: Record<string, (store: Store) => Partial<Store>> = {
  'swaps two events': (store) => ({
    async *read(projectId, options) {
      const all: StoredEvent[] = []
      for await (const event of store.read(projectId, options)) all.push(event)
      yield* [...all.slice(0, -2), ...all.slice(-2).reverse()]
    },
  }),
  'changes a byte': (store) => ({
    async *read(projectId, options) {
      for await (const event of store.read(projectId, options)) {
        yield { ...event, bytes: Buffer.from(Buffer.from(event.bytes).toString().replace('odd-1', 'odd-0')) }
      }
    },
  }),
  'changes a time': (store) => ({
    append: (projectId, batch) => store.append(projectId, { ...batch, receivedAt: batch.receivedAt + 1 }),
  }),
  'loses the last batch': (store) => ({
    append: async (projectId, batch) => {
      if (Buffer.from(batch.body).includes('"e-59"')) return { stored: [true], conflicts: 0, frozen: [] }
      return store.append(projectId, batch)
    },
  }),
  'freezes later': (store) => ({
    builds: async (projectId, selection) => {
      const { builds } = await store.builds(projectId, selection)
      const later = (build: BuildEntry) => ({
        ...build,
        ...(build.frozenAt !== undefined && { frozenAt: build.frozenAt + 1 }),
      })
      return { builds: builds.map(later) }
    },
  }),
  'does not freeze': (store) => ({
    builds: async (projectId, selection) => {
      const { builds } = await store.builds(projectId, selection)
      return { builds: builds.filter(({ buildId }) => buildId !== 'odd-build') }
    },
  }),
  'damages a chunk': (store) => ({
    readChunk: async (projectId, digest) => (await store.readChunk(projectId, digest))?.subarray(1),
  }),
}

for (const [name, breakStore] of Object.entries(broken)) {
  t.test(`a target that ${name} is noticed`, async (t) => {
    const [source, target] = [await openFilled(), openMemoryStore()]
    await fails(t, copy(source, { ...target, ...breakStore(target) }), { code: 'digest-mismatch' })
    t.strictSame((await target.entry('project', alpha))?.keys, undefined, 'keys are written last')
  })
}

t.test('a damaged chunk of the source is not copied', async (t) => {
  const [source, target] = [await openFilled(), openMemoryStore()]
  const readChunk: Store['readChunk'] = async (projectId, digest) =>
    (await source.readChunk(projectId, digest))?.subarray(1)
  await fails(t, copy({ ...source, readChunk }, target), { code: 'digest-mismatch', message: /^The chunk sha256/ })
})

t.test('to merge many projects, each group is compared with few others', async (t) => {
  const [source, target] = [openMemoryStore(), openMemoryStore()]
  const projects = 300
  const now = createClock(1_700_000_000_000)
  const ingest = createIngest({ store: source, now })
  for (let i = 0; i < projects; i++) {
    await ingest.project(`p-${i}`).submitBatch({ events: [{ projectId: `p-${i}`, eventId: 'e' }] })
  }
  let timesRead = 0
  async function* read(...args: Parameters<Store['read']>) {
    for await (const { receivedAt, ...event } of source.read(...args)) {
      yield {
        ...event,
        get receivedAt() {
          timesRead++
          return receivedAt
        },
      }
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

t.test('many batches are in flight, of a project only to a target that keeps their order', async (t) => {
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

t.test('a copy that fails has nothing in flight any more', async (t) => {
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
