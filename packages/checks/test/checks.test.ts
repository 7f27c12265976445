import { randomBytes } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { crc32 } from 'node:zlib'
import {
  type AppendBatch,
  createIngest,
  decodeEvents,
  eventCursors,
  IngestError,
  openMemoryStore,
  type Store,
  type StoredEvent,
} from '@ingest/core'
import t from 'tap'
import {
  durableStoreChecks,
  ingestChecks,
  restoreChecks,
  sharedStoreChecks,
  shareStore,
  storeChecks,
} from '../src/index.ts'
import { activityChecks, raceActivityChecks } from '../src/store/activity.ts'
import { appendChecks } from '../src/store/append.ts'
import { countChecks } from '../src/store/count.ts'
import { eraseChecks, handleEraseChecks, raceEraseChecks } from '../src/store/erase.ts'
import { batchOf, event as sampleEvent } from '../src/store/sample-events.ts'

t.test('the memory store keeps the contract, with one handle or several that are the same', async (t) => {
  const shared = shareStore(openMemoryStore, handleOf)
  for (const { name, isolated, run } of storeChecks) {
    await t.test(name, () => run(isolated ? openMemoryStore : shared.open))
  }
  for (const { name, isolated, run } of sharedStoreChecks) {
    const open = () => handleOf(openMemoryStore())
    await t.test(name, () => (isolated ? run(open, handleOf) : run(shared.open, shared.openAgain)))
  }
  await shared.close()
})

/** A handle whose `close` does nothing. */
function handleOf(store: Store): Store {
  return { ...store, async close() {} }
}

t.test('an ingest on the memory store keeps its promises', async (t) => {
  async function open() {
    const embedded = createIngest({ store: openMemoryStore() })
    return { ingest: embedded.project('p'), close: embedded.close }
  }
  for (const { name, run } of ingestChecks) await t.test(name, () => run(open))
})

t.test('the names of the checks are unique', async (t) => {
  const ofStores = [...storeChecks, ...sharedStoreChecks, ...durableStoreChecks, ...restoreChecks]
  for (const names of [ofStores.map(({ name }) => name), ingestChecks.map(({ name }) => name)]) {
    t.equal(new Set(names).size, names.length)
  }
})

t.test('a store that checks and then writes fails the races, and nothing else', async (t) => {
  const lost = [
    'of appends of the same events through all handles exactly one stores each',
    'batches of the same events in different orders are stored once, without an error',
    'an event is visible with its whole batch and its build frozen, through every handle',
    'of concurrent updates of a project and of a map through all handles none is lost',
    'publications through one handle and the first event through another have one order',
    'a freeze through one handle voids and ends replacements through another',
    'uses of keys are noted beside concurrent revocations and rotations, and undo none',
    'overlapping batches of two projects store each event once, with the bytes of the append that reports it',
    'concurrent appends that freeze one build agree on when, and one reports it',
    'of concurrent moves of a consumer from one position, through all handles, one succeeds',
  ]
  const withOneHandle = lost.map((name) => `with one handle: ${name}`)
  t.strictSame(await failing(openCheckThenActStore, storeChecks.filter(isOfAppends)), withOneHandle)
  const open = () => handleOf(openCheckThenActStore())
  const openAgain = (store: Store) => ({ ...handleOf(store), close: store.close })
  t.strictSame(await failing(open, sharedStoreChecks.filter(isOfAppends), openAgain), [
    ...lost,
    'the time at which events were received never decreases, whatever the clocks of the handles',
    'totals with the last cursor, recent events, builds and projects agree between handles',
  ])
})

t.test('a store that forgets fails every durable check', async (t) => {
  for (const { name, run } of durableStoreChecks) {
    await t.rejects(
      run(openMemoryStore, () => openMemoryStore()),
      { code: 'ERR_ASSERTION' },
      name,
    )
  }
})

t.test('a store that completes rejected operations fails a durable check', async (t) => {
  const failed: string[] = []
  const kept = openMemoryStore()
  const open = (): Store => ({
    ...kept,
    async updateEntry(kind, projectId, decide) {
      await kept.updateEntry(kind, projectId, decide)
      throw new IngestError('store-locked', 'Not now.')
    },
    async close() {},
  })
  const check = durableStoreChecks.find(({ name }) => name.includes('outcome is unknown'))
  await check?.run(open, () => handleOf(kept)).catch(({ message }) => failed.push(message))
  t.match(failed, [/^the key e-0/])
})

t.test('a store that erases nothing, or more than it says, fails the checks of erasure', async (t) => {
  const nothing = { events: 0, bytes: 0, isDone: true }
  const broken: ((store: Store) => Partial<Store>)[] = [
    () => ({ erase: async (_, eventIds) => eventIds.length, expire: async () => nothing }),
    (store) => ({ find: async (...of) => ((await store.find(...of))?.erased ? undefined : store.find(...of)) }),
    (store) => ({ read: (projectId, options) => store.read(projectId, { ...options, erased: true }) }),
    (store) => ({ totals: async (projectId) => ({ ...(await store.totals(projectId)), bytes: 1 }) }),
    (store) => ({ expire: async (projectId) => store.expire(projectId, 1e15) }),
  ]
  for (const breakStore of broken) {
    const open = () => {
      const store = openMemoryStore()
      return { ...store, ...breakStore(store) }
    }
    t.ok((await failing(open, eraseChecks)).length > 0)
  }
})

t.test(
  'a store that miscounts a range, or gives another last cursor, fails the checks of counts and appends',
  async (t) => {
    const lastOf = async (store: Store, projectId: string) => {
      const cursors: string[] = []
      for await (const page of store.read(projectId)) cursors.push(...page.map(({ cursor }) => cursor))
      return cursors
    }
    const broken: Record<string, (store: Store) => Partial<Store>> = {
      'no time': (store) => ({ count: (projectId, { after }, max) => store.count(projectId, { after }, max) }),
      'no cursor': (store) => ({ count: (projectId, { from }, max) => store.count(projectId, { from }, max) }),
      'the cursor alone, where both are given': (store) => ({
        count: (projectId, { after, from }, max) => store.count(projectId, after ? { after } : { from }, max),
      }),
      'a later time': (store) => ({
        count: (projectId, { after, from = 0 }, max) => store.count(projectId, { after, from: from + 1 }, max),
      }),
      'no limit': (store) => ({ count: (projectId, range) => store.count(projectId, range, 1_000) }),
      'no batches left': (store) => ({
        count: async (...of) => ({ ...(await store.count(...of)), batchesLeft: 0 }),
      }),
      'no time of the first': (store) => ({
        async count(...of) {
          const { firstAt: _, ...counted } = await store.count(...of)
          return counted
        },
      }),
      'the cursor before the last': (store) => ({
        async totals(projectId) {
          const [totals, cursors] = [await store.totals(projectId), await lastOf(store, projectId)]
          return { ...totals, lastCursor: cursors.at(-2) ?? totals.lastCursor }
        },
      }),
      'the first cursor': (store) => ({
        async totals(projectId) {
          const [totals, cursors] = [await store.totals(projectId), await lastOf(store, projectId)]
          return { ...totals, lastCursor: cursors[0] ?? totals.lastCursor }
        },
      }),
      'no cursor of an empty project': (store) => ({
        async totals(projectId) {
          const totals = await store.totals(projectId)
          return { ...totals, lastCursor: totals.events === 0 ? '' : totals.lastCursor }
        },
      }),
    }
    for (const [name, breakStore] of Object.entries(broken)) {
      const open = () => {
        const store = openMemoryStore()
        return { ...store, ...breakStore(store) }
      }
      t.ok((await failing(open, [...countChecks, ...appendChecks])).length > 0, name)
    }
  },
)

t.test('a store that mixes activity up, or keeps it, fails the checks of activity', async (t) => {
  const broken: ((store: Store) => Partial<Store>)[] = [
    (store) => ({ putActivity: (rows) => store.putActivity(rows.map((row) => ({ ...row, span: 'minute' }))) }),
    (store) => ({ putActivity: (rows) => store.putActivity(rows.map((row) => ({ ...row, writer: 'w' }))) }),
    (store) => ({ putActivity: (rows) => store.putActivity(rows.map((row) => ({ ...row, projectId: 'p' }))) }),
    (store) => ({ putActivity: (rows) => store.putActivity(rows.slice(0, 255)) }),
    (store) => ({ activity: (projectId, range) => store.activity(projectId, { ...range, to: range.to + 1 }) }),
    (store) => ({ activity: (projectId, range) => store.activity(projectId, { ...range, from: range.from + 1 }) }),
    (store) => ({ sweep: (before) => store.sweep({ ...before, activity: before.activity + 1 }) }),
    (store) => ({ sweep: (before) => store.sweep({ ...before, activity: 0 }) }),
  ]
  for (const [i, breakStore] of broken.entries()) {
    const open = () => {
      const store = openMemoryStore()
      return { ...store, ...breakStore(store) }
    }
    t.ok((await failing(open, activityChecks)).length > 0, `store ${i}`)
  }
})

async function failing<Rest extends unknown[]>(
  open: () => Store,
  checks: readonly { name: string; run(open: () => Store, ...rest: Rest): Promise<void> }[],
  ...rest: Rest
): Promise<string[]> {
  const names: string[] = []
  for (const { name, run } of checks) {
    const running = run(open, ...rest)
    await running.catch((error: { code?: string }) => names.push(error.code === 'ERR_ASSERTION' ? name : `${error}`))
  }
  return names
}

const otherChecks = [
  ...[...eraseChecks, ...raceEraseChecks, ...handleEraseChecks],
  ...[...countChecks, ...activityChecks, ...raceActivityChecks],
].map(({ name }) => name)

function isOfAppends({ name }: { name: string }): boolean {
  return !otherChecks.some((each) => name.endsWith(each))
}

interface Kept {
  log: StoredEvent[]
  byId: Map<string, StoredEvent>
  batches: { receivedAt: number; events: number }[]
  bytes: number
}

/** Correct only for callers that wait for each other: it does in several steps what must be done in one. */
function openCheckThenActStore(): Store {
  const memory = openMemoryStore()
  const frozen = new Map<string, number>()
  return {
    ...memory,
    ...createEvents(memory, frozen),
    async map(key) {
      const slot = await memory.map(key)
      const frozenAt = frozen.get(JSON.stringify([key.projectId, key.buildId]))
      return frozenAt === undefined ? slot : { ...slot, frozenAt }
    },
    async updateMap(key, chunks, decide) {
      const slot = await this.map(key)
      const decided = await memory.updateMap(key, chunks, (_, present) => ({ result: decide(slot, present) }))
      const { contents, result } = decided
      await nextTurn()
      return memory.updateMap(key, chunks, () => ({ ...(contents && { contents }), result }))
    },
    async updateEntry(kind, projectId, decide) {
      const decided = decide(await memory.entry(kind, projectId))
      await nextTurn()
      return memory.updateEntry(kind, projectId, () => decided)
    },
  }
}

type Events = Pick<Store, 'append' | 'known' | 'find' | 'read' | 'totals' | 'count' | 'projects' | 'close'>

/** An event store that checks and then acts; `frozen` holds the builds that were frozen. */
function createEvents(memory: Store, frozen: Map<string, number>): Events {
  const identity = { id: randomBytes(8), epoch: randomBytes(8) }
  const kept = new Map<string, Kept>()
  let appending: Promise<unknown> = Promise.resolve()

  function of(projectId: string) {
    const project: Kept = kept.get(projectId) ?? { log: [], byId: new Map(), batches: [], bytes: 0 }
    kept.set(projectId, project)
    return project
  }

  async function append(projectId: string, { body, events: rows, ...batch }: AppendBatch) {
    const events = decodeEvents(body, rows)
    await memory.check()
    const project = of(projectId)
    const receivedAt = Math.max(Math.min(batch.receivedAt, Date.now()), project.log.at(-1)?.receivedAt ?? 0)
    const existing = events.map(({ eventId }) => project.byId.get(eventId))
    const texts = events.map(({ start, end }) => Buffer.from(body.subarray(start, end)))
    const freezes: string[] = []
    for (const [i, { eventId, buildId }] of events.entries()) {
      if (existing[i]) continue
      await nextTurn()
      const bytes = texts[i] as Buffer
      const cursor = eventCursors(identity, projectId).encode(project.log.length + 1, crc32(bytes))
      const event = { cursor, receivedAt, bytes }
      project.log.push(event)
      project.byId.set(eventId, event)
      project.bytes += event.bytes.length
      if (buildId === undefined) continue
      const key = JSON.stringify([projectId, buildId])
      const frozenAt = frozen.get(key) ?? receivedAt
      if (!frozen.has(key)) freezes.push(buildId)
      await nextTurn()
      frozen.set(key, frozenAt)
      await memory.append(projectId, batchOf([sampleEvent(key, { buildId })], { receivedAt: frozenAt }))
    }
    const stored = existing.map((each) => each === undefined)
    if (stored.includes(true)) project.batches.push({ receivedAt, events: stored.filter(Boolean).length })
    const conflicts = existing.filter((each, i) => each && !texts[i]?.equals(each.bytes)).length
    return { stored, conflicts, frozen: freezes }
  }

  return {
    append(projectId, batch) {
      const appended = append(projectId, batch)
      appending = Promise.allSettled([appending, appended])
      return appended
    },
    async known(projectId, eventIds) {
      await memory.check()
      return eventIds.map((eventId) => of(projectId).byId.has(eventId))
    },
    async find(projectId, eventId) {
      await memory.check()
      return of(projectId).byId.get(eventId)
    },
    async *read(projectId, { after, limit = Number.POSITIVE_INFINITY, from = 0, signal } = {}) {
      await memory.check()
      const { log } = of(projectId)
      const recordAt = (position: number) => log[position - 1] && crc32((log[position - 1] as StoredEvent).bytes)
      const cursors = eventCursors(identity, projectId)
      const behind = after === undefined ? 0 : cursors.decode(after)
      if (after !== undefined) cursors.check(after, behind, behind === 0 ? 0 : recordAt(behind))
      const since = log.findIndex(({ receivedAt }) => receivedAt >= from)
      const first = Math.max(behind, since === -1 ? log.length : since)
      for (let i = first; i < log.length && i < first + limit; i++) {
        await memory.check()
        signal?.throwIfAborted()
        yield [log[i] as StoredEvent]
      }
    },
    async totals(projectId) {
      await memory.check()
      const { log, batches, bytes } = of(projectId)
      const [first, last] = [batches[0], batches.at(-1)]
      const times = first && last && { firstAt: first.receivedAt, lastAt: last.receivedAt }
      const lastCursor = log.at(-1)?.cursor ?? eventCursors(identity, projectId).encode(0, 0)
      return { events: log.length, batches: batches.length, bytes, ...times, lastCursor }
    },
    /** Ignores `after`. */
    async count(projectId, { from = 0 }, batchesMax) {
      await memory.check()
      const recent = of(projectId).batches.filter(({ receivedAt }) => receivedAt >= from)
      const events = recent.slice(0, batchesMax).reduce((sum, batch) => sum + batch.events, 0)
      return { events, batchesLeft: Math.max(0, recent.length - batchesMax) }
    },
    async projects(kind = 'project') {
      if (kind !== 'project') return memory.projects(kind)
      const used = [...kept].flatMap(([projectId, { batches }]) => (batches.length > 0 ? [projectId] : []))
      return [...new Set([...used, ...(await memory.projects())])].sort()
    },
    async close() {
      await appending
      await memory.close()
    },
  }
}
