import assert from 'node:assert/strict'
import type { ConsumerRecord, Entries, EntryKind, Store } from '@ingest/core'
import { batchOf, event, idsOf, projectWith, publishEmpty } from './sample-events.ts'
import { check, range, rejectionOf, type SharedStoreCheck, type StoreCheck, sharedCheck } from './store-check.ts'

/** Two values of the entry of project `p`, by kind. */
const samples: { [Kind in EntryKind]: readonly [Entries[Kind], Entries[Kind]] } = {
  project: [projectWith(['k1']), projectWith(['k1', 'k2'])],
  consumers: [[consumer('a'), consumer('b', 2)], [consumer('a', 3)]],
}
const kinds = Object.keys(samples) as EntryKind[]

export const entryChecks: readonly StoreCheck[] = [
  check('projects with an event, a map or a key are listed in the order of their bytes', async (store) => {
    assert.deepEqual(await store.projects(), [])
    await store.known('q', ['a'])
    await store.entry('project', 'q')
    assert.deepEqual(await store.projects(), [], 'reading stores nothing')
    await store.append('b', batchOf([event('a')]))
    for (const projectId of ['a.b', 'a']) {
      await store.updateEntry('project', projectId, () => ({ entry: { ...projectWith([]), projectId }, result: 1 }))
    }
    await store.append('a', batchOf([event('a')]))
    await publishEmpty(store, 'b', '1', 'B')
    await store.append('_', batchOf([event('a')]))
    assert.deepEqual(await store.projects(), ['B', '_', 'a', 'a.b', 'b'])
  }),

  check('projects with consumers are listed in the order of their bytes, until they have none', async (store) => {
    const write = (projectId: string, entry: readonly ConsumerRecord[] | null) =>
      store.updateEntry('consumers', projectId, () => ({ entry, result: undefined }))
    assert.deepEqual(await store.projects('consumers'), [])
    for (const projectId of ['p', 'B', '_']) await write(projectId, [consumer('a')])
    assert.deepEqual(await store.projects('consumers'), ['B', '_', 'p'])
    await write('B', null)
    assert.deepEqual(await store.projects('consumers'), ['_', 'p'])
    await write('B', [consumer('b')])
    assert.deepEqual(await store.projects('consumers'), ['B', '_', 'p'])
    assert.deepEqual(await store.projects(), [], 'a consumer makes no project')
  }),

  ...kinds.flatMap((kind) => checksOf(kind)),

  check('an update that throws affects no other operation', async (store) => {
    const thrown = new Error('no')
    const refuse = () => {
      throw thrown
    }
    const [first, refusal, update, last] = await Promise.all([
      store.append('p', batchOf([event('first')])),
      rejectionOf(store.updateEntry('project', 'p', refuse)),
      store.updateEntry('project', 'p', () => ({ entry: projectWith([]), result: 'updated' })),
      store.append('p', batchOf([event('last')])),
    ])
    assert.deepEqual([first.stored, refusal, update, last.stored], [[true], thrown, 'updated', [true]])
    assert.deepEqual((await idsOf(store)).sort(), ['first', 'last'])
    assert.deepEqual(await store.entry('project', 'p'), projectWith([]))
  }),
]

function checksOf<Kind extends EntryKind>(kind: Kind): StoreCheck[] {
  const [created, changed] = samples[kind]
  const others = kinds.filter((each) => each !== kind)
  return [
    check(`an entry is created, read, changed and removed: ${kind}`, async (store) => {
      let before: Entries[Kind] | undefined
      for (const entry of [created, changed, null, created]) {
        const seen = await store.updateEntry(kind, 'p', (found) => ({ entry, result: found ?? 'none' }))
        assert.deepEqual(seen, before ?? 'none')
        before = entry ?? undefined
        assert.deepEqual(await store.entry(kind, 'p'), before)
        assert.equal(await store.entry(kind, 'q'), undefined)
        for (const other of others) assert.equal(await store.entry(other, 'p'), undefined)
      }
    }),

    check(`a decision that writes nothing, or throws, changes nothing: ${kind}`, async (store) => {
      const thrown = new Error('no')
      const refuse = () => {
        throw thrown
      }
      for (const kept of [undefined, created]) {
        if (kept) await store.updateEntry(kind, 'p', () => ({ entry: kept, result: undefined }))
        assert.equal(await store.updateEntry(kind, 'p', () => ({ result: 1 })), 1)
        assert.equal(await rejectionOf(store.updateEntry(kind, 'p', refuse)), thrown)
        assert.deepEqual(await store.entry(kind, 'p'), kept)
      }
    }),
  ]
}

export const raceEntryChecks: readonly SharedStoreCheck[] = [
  sharedCheck(
    'of concurrent moves of a consumer from one position, through all handles, one succeeds',
    async (handles) => {
      const rounds = 15
      for (const round of range(rounds)) {
        const moves = [...handles, ...handles].map((store) => moveFrom(store, round))
        const moved = (await Promise.all(moves)).filter(Boolean)
        assert.equal(moved.length, 1, `round ${round}`)
        for (const store of handles) {
          assert.deepEqual(await store.entry('consumers', 'p'), [consumer('shared', round + 1)])
        }
      }
      const names = handles.flatMap((_, h) => range(8).map((i) => `${h}-${i}`))
      await Promise.all(names.map((name, i) => add(handles[i % 3] as Store, name)))
      for (const store of handles) {
        const kept = (await store.entry('consumers', 'p'))?.map(({ name }) => name).sort()
        assert.deepEqual(kept, [...names, 'shared'].sort())
      }
    },
  ),
]

function consumer(name: string, position = 1): ConsumerRecord {
  return { name, cursor: `cursor-${position}`, updatedAt: position }
}

/** Advances the consumer `shared` if it is at this position; resolves with whether it did. */
function moveFrom(store: Store, position: number): Promise<boolean> {
  return store.updateEntry('consumers', 'p', (consumers) =>
    (consumers?.[0]?.updatedAt ?? 0) === position
      ? { entry: [consumer('shared', position + 1)], result: true }
      : { result: false },
  )
}

function add(store: Store, name: string): Promise<void> {
  return store.updateEntry('consumers', 'p', (before = []) => ({
    entry: [...before, consumer(name)],
    result: undefined,
  }))
}
