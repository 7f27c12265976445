import assert from 'node:assert/strict'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Slice, sliceEvents } from '../json/json-scanner.ts'
import type { KeyRecord, Project } from '../projects/project.ts'
import type { AppendBatch, AppendResult, BuildEntry, Cursor, ReadOptions, Store, StoredEvent } from '../store.ts'
import { durableMapStoreChecks, mapStoreChecks } from './map-store-checks.ts'

/** Opens a new store with nothing in it, independent of all others. */
export type OpenStore = () => Promise<Store> | Store

/** Opens a store again that was closed, with all that it keeps. */
export type ReopenStore = (closed: Store) => Promise<Store> | Store

/** One promise of the {@link Store} contract. */
export interface StoreCheck {
  /** The promise, as a fact: "a second append of a batch stores nothing". */
  name: string
  /** Resolves when the store keeps the promise, rejects with an `AssertionError` when not; closes what it opens. */
  run(open: OpenStore): Promise<void>
}

/**
 * Takes a backup of a store that was closed. What it resolves with puts the backup in the place of that store, which is
 * closed again by then, and opens it.
 */
export type BackUpStore = (closed: Store) => Promise<() => Promise<Store>>

/** One promise of a store of which there are backups. */
export interface RestoreCheck {
  name: string
  run(open: OpenStore, reopen: ReopenStore, backUp: BackUpStore): Promise<void>
}

/** One promise of a store that outlives its process. */
export interface DurableStoreCheck {
  name: string
  run(open: OpenStore, reopen: ReopenStore): Promise<void>
}

/**
 * What every store promises, for any test runner.
 *
 * ```ts
 * import test from 'node:test'
 * import { storeChecks } from '@ingest/core/testing'
 *
 * for (const { name, run } of storeChecks) test(name, () => run(openMyStore))
 * ```
 */
export const storeChecks: readonly StoreCheck[] = [
  ...mapStoreChecks.map(({ name, use }) => check(name, use)),

  check('an append stores new events and says so for each', async (store) => {
    const result = await store.append('p', batchOf([event('a'), event('b'), event('c')]))
    assert.deepEqual(result, { stored: [true, true, true], conflicts: 0 })
    assert.deepEqual(await idsOf(store), ['a', 'b', 'c'])
  }),

  check('an append of no events stores nothing', async (store) => {
    assert.deepEqual(await store.append('p', batchOf([])), { stored: [], conflicts: 0 })
    assert.deepEqual(await idsOf(store), [])
  }),

  check('a second append of a batch stores nothing, and the same bytes are no conflict', async (store) => {
    const batch = batchOf([event('a'), event('b')])
    await store.append('p', batch)
    const before = await readAll(store)
    const result = await store.append('p', { ...batch, receivedAt: batch.receivedAt + 1 })
    assert.deepEqual(result, { stored: [false, false], conflicts: 0 })
    assert.deepEqual(await readAll(store), before)
  }),

  check('a known id with other bytes is a conflict, and the first content stays', async (store) => {
    await store.append('p', batchOf([event('a', { n: 1 }), event('b'), event('c')]))
    const result = await store.append('p', batchOf([event('a', { n: 2 }), event('b'), `${event('c')} `]))
    assert.deepEqual(result, { stored: [false, false, false], conflicts: 1 }, 'space around an event is not part of it')
    assert.deepEqual(await store.append('p', batchOf([event('b').replace(',', ', ')])), {
      stored: [false],
      conflicts: 1,
    })
    assert.deepEqual(await textsOf(store), [event('a', { n: 1 }), event('b'), event('c')])
    assert.equal(textOf(await store.find('p', 'a')), event('a', { n: 1 }))
  }),

  check('a partly known batch stores the new events only, in their order', async (store) => {
    await store.append('p', batchOf([event('b'), event('d')]))
    const batch = batchOf(['a', 'b', 'c', 'd', 'e'].map((id) => event(id, { second: true })))
    assert.deepEqual(await store.append('p', batch), { stored: [true, false, true, false, true], conflicts: 2 })
    assert.deepEqual(await idsOf(store), ['b', 'd', 'a', 'c', 'e'])
    assert.equal(textOf(await store.find('p', 'b')), event('b'))
    assert.equal(textOf(await store.find('p', 'e')), event('e', { second: true }))
  }),

  check('events come back byte for byte', async (store) => {
    await store.append('p', batchOf(oddEvents))
    assert.deepEqual(await textsOf(store), oddEvents)
    for (const text of oddEvents) assert.equal(textOf(await store.find('p', idOf(text))), text)
  }),

  check('events come back byte for byte from any envelope', async (store) => {
    for (const [i, envelope] of envelopes.entries()) {
      await store.append(`p${i}`, batchFrom(envelope(`[\n ${oddEvents.join(' ,\t')}\r\n]`)))
      assert.deepEqual(await textsOf(store, `p${i}`), oddEvents, envelope('…'))
    }
  }),

  check('events come back byte for byte when others of their body were rejected', async (store) => {
    const rejected = ['1', '"}"', 'null', '[{"eventId":"inner"}]', '{}', '-1.5e3', '[]']
    const elements = oddEvents.flatMap((text, i) => [rejected[i % rejected.length] as string, text])
    const indexes = oddEvents.map((_, i) => 2 * i + 1)
    for (const [i, envelope] of envelopes.entries()) {
      const batch = batchFrom(envelope(`[${elements.join(' , ')}]`), { indexes })
      const { stored } = await store.append(`p${i}`, batch)
      assert.deepEqual(
        stored,
        oddEvents.map(() => true),
      )
      assert.deepEqual(await textsOf(store, `p${i}`), oddEvents, envelope('…'))
    }
  }),

  check('events come back byte for byte when others of their batch were known', async (store) => {
    const known = oddEvents.filter((_, i) => i % 2 === 0)
    const fresh = oddEvents.filter((_, i) => i % 2 === 1)
    for (const [i, envelope] of envelopes.entries()) {
      await store.append(`p${i}`, batchFrom(envelope(`[${known}]`)))
      const result = await store.append(`p${i}`, batchFrom(envelope(`[${oddEvents.join(' ,\n')}]`)))
      assert.deepEqual(result, { stored: oddEvents.map((_, at) => at % 2 === 1), conflicts: 0 })
      assert.deepEqual(await textsOf(store, `p${i}`), [...known, ...fresh], envelope('…'))
    }
  }),

  check('an id is what its JSON means, not how it is written', async (store) => {
    const spellings = ['{"eventId":"A/é"}', '{"eventId":"\\u0041\\/\\u00E9"}', '{"eventId":"x","\\u0065ventId":"A/é"}']
    for (const [i, text] of spellings.entries()) {
      assert.deepEqual(await store.append('p', batchOf([text])), { stored: [i === 0], conflicts: i === 0 ? 0 : 1 })
    }
    assert.deepEqual(await textsOf(store), spellings.slice(0, 1))
  }),

  check('a body may be a part of a larger buffer', async (store) => {
    const texts = [event('a'), event('b')]
    const { body, ...batch } = batchOf(texts)
    const before = Buffer.from('{"events":[{"eventId":"before"}]}')
    const larger = Buffer.concat([before, body, Buffer.from(' ,{"eventId":"after"}]}')])
    await store.append('p', { ...batch, body: larger.subarray(before.length, before.length + body.length) })
    assert.deepEqual(await textsOf(store), texts)
    const plain = new Uint8Array(larger.length)
    plain.set(larger)
    const part = new Uint8Array(plain.buffer, before.length, body.length)
    assert.deepEqual(await store.append('p', { ...batch, body: part }), { stored: [false, false], conflicts: 0 })
    await store.append('q', { ...batch, body: part })
    assert.deepEqual(await textsOf(store, 'q'), texts)
  }),

  check('a batch of 100 events in 262,144 bytes is stored', async (store) => {
    const [fillBytes, bodyBytes] = [2_560, 262_144]
    const texts = range(99).map((i) => event(`e-${i}`, { fill: 'x'.repeat(fillBytes) }))
    const { body } = batchOf([...texts, event('last', { fill: '' })])
    const batch = batchOf([...texts, event('last', { fill: 'x'.repeat(bodyBytes - body.length) })])
    assert.equal(batch.body.length, bodyBytes)
    assert.deepEqual(await store.append('p', batch), { stored: range(100).map(() => true), conflicts: 0 })
    assert.deepEqual(await textsOf(store), textsIn(batch))
    assert.deepEqual(await store.append('p', batch), { stored: range(100).map(() => false), conflicts: 0 })
  }),

  check('one large event is stored', async (store) => {
    const batch = batchOf([event('a', { fill: 'é'.repeat(131_000) })])
    await store.append('p', batch)
    assert.deepEqual(await textsOf(store), textsIn(batch))
  }),

  check('ids are compared byte for byte', async (store) => {
    const batch = batchOf(lookAlikes.map((id, i) => event(id, { i })))
    const { stored } = await store.append('p', batch)
    assert.deepEqual(
      lookAlikes.filter((_, i) => !stored[i]),
      [],
      'taken for another',
    )
    for (const [i, id] of lookAlikes.entries()) assert.equal(textOf(await store.find('p', id)), event(id, { i }))
    assert.deepEqual(await store.append('p', batch), { stored: lookAlikes.map(() => false), conflicts: 0 })
  }),

  check('ids that look alike are not known by one another', async (store) => {
    const ids = [...lookAlikes].reverse()
    for (const [i, id] of ids.entries()) {
      const known = await store.known('p', ids)
      assert.deepEqual(
        known,
        ids.map((_, at) => at < i),
        `before ${JSON.stringify(id)}`,
      )
      assert.deepEqual(await store.append('p', batchOf([event(id)])), { stored: [true], conflicts: 0 })
    }
  }),

  check('the same id in two projects is two events', async (store) => {
    await store.append('p', batchOf([event('a', { projectId: 'p' })]))
    assert.deepEqual(await store.known('q', ['a']), [false])
    const result = await store.append('q', batchOf([event('a', { projectId: 'q' })]))
    assert.deepEqual(result, { stored: [true], conflicts: 0 })
    assert.equal(textOf(await store.find('p', 'a')), event('a', { projectId: 'p' }))
    assert.deepEqual(await textsOf(store, 'q'), [event('a', { projectId: 'q' })])
  }),

  check('a project and an id do not run into each other', async (store) => {
    const pairs = [
      ['a', 'bc'],
      ['ab', 'c'],
      ['abc', 'a'],
      ['A', 'bc'],
      ['a.b', 'c'],
      ['a-b', 'c'],
      ['a', '.bc'],
    ] as const
    for (const [projectId, id] of pairs) {
      assert.deepEqual(await store.append(projectId, batchOf([event(id)])), { stored: [true], conflicts: 0 })
    }
    for (const [projectId, id] of pairs) assert.equal(idOf(textOf(await store.find(projectId, id))), id)
    assert.deepEqual(await store.known('ab', ['bc', 'c']), [false, true])
  }),

  check('known and find agree with what was appended', async (store) => {
    assert.deepEqual(await store.known('p', ['a']), [false], 'an empty project knows nothing')
    assert.equal(await store.find('p', 'a'), undefined)
    await store.append('p', batchOf([event('a'), event('b')], { receivedAt: 1_795_203_225_083 }))
    assert.deepEqual(await store.known('p', ['x', 'b', 'a', 'b']), [false, true, true, true])
    assert.deepEqual(await store.known('p', []), [])
    assert.equal(await store.find('p', 'x'), undefined)
    const found = await store.find('p', 'b')
    assert.equal(textOf(found), event('b'))
    assert.equal(found?.receivedAt, 1_795_203_225_083)
  }),

  check('thousands of ids are told apart', async (store) => {
    const ids = range(3_000).map((i) => `event-${i}`)
    const batches = range(30).map((b) => batchOf(ids.slice(b * 100, b * 100 + 100).map((id) => event(id))))
    for (const { stored } of await appendAll(store, batches)) assert.ok(stored.every(Boolean))
    assert.deepEqual(
      await store.known('p', ids),
      ids.map(() => true),
    )
    assert.deepEqual(
      await store.known(
        'p',
        ids.map((id) => `${id}!`),
      ),
      ids.map(() => false),
    )
    for (const { stored } of await appendAll(store, batches)) assert.ok(!stored.some(Boolean))
  }),

  check('what was given out does not change with later operations', async (store) => {
    await store.append('p', batchOf([event('a')]))
    const found = await store.find('p', 'a')
    const [read] = await readAll(store)
    await store.append('p', batchOf(range(50).map((i) => event(`${i}`, { fill: '#'.repeat(500) }))))
    for (const i of range(50)) await store.find('p', `${i}`)
    assert.equal(textOf(found), event('a'))
    assert.equal(textOf(read), event('a'))
  }),

  check('a read gives every event once, oldest first, with the time it was received', async (store) => {
    for (const i of range(10)) {
      await store.append('q', batchOf([event(`other-${i}`)]))
      await store.append('p', batchOf([event(`${i}-a`), event(`${i}-b`)], { receivedAt: 5_000 + i }))
    }
    const events = await readAll(store)
    assert.deepEqual(
      events.map(idOfStored),
      range(10).flatMap((i) => [`${i}-a`, `${i}-b`]),
    )
    assert.deepEqual(
      events.map(({ receivedAt }) => receivedAt),
      range(10).flatMap((i) => [5_000 + i, 5_000 + i]),
    )
    assert.equal(new Set(events.map(({ cursor }) => cursor)).size, 20)
  }),

  check('an empty project reads nothing', async (store) => {
    await store.append('q', batchOf([event('a')]))
    assert.deepEqual(await readAll(store, 'p'), [])
    assert.deepEqual(await readAll(store, 'p', { limit: 5 }), [])
  }),

  check('a read after any cursor goes on exactly behind it', async (store) => {
    await appendSome(store)
    const events = await readAll(store)
    for (const [i, { cursor }] of events.entries()) {
      assert.deepEqual(await readAll(store, 'p', { after: cursor }), events.slice(i + 1))
    }
  }),

  check('the cursor of a found event is as good as one that was read', async (store) => {
    const ids = await appendSome(store)
    for (const [i, id] of ids.entries()) {
      const after = (await store.find('p', id))?.cursor as Cursor
      assert.deepEqual((await readAll(store, 'p', { after })).map(idOfStored), ids.slice(i + 1))
    }
  }),

  check('a cursor at the end sees only what comes later', async (store) => {
    await appendSome(store)
    const after = (await readAll(store)).at(-1)?.cursor as Cursor
    assert.deepEqual(await readAll(store, 'p', { after }), [])
    await store.append('p', batchOf([event('later')]))
    assert.deepEqual((await readAll(store, 'p', { after })).map(idOfStored), ['later'])
  }),

  check('a read gives at most as many events as its limit', async (store) => {
    const ids = await appendSome(store)
    const after = (await store.find('p', ids[1] as string))?.cursor as Cursor
    for (const limit of range(ids.length + 3)) {
      assert.deepEqual((await readAll(store, 'p', { limit })).map(idOfStored), ids.slice(0, limit))
      assert.deepEqual((await readAll(store, 'p', { limit, after })).map(idOfStored), ids.slice(2, 2 + limit))
    }
  }),

  check('pages of any size make up the whole', async (store) => {
    const ids = await appendSome(store)
    for (const limit of [1, 2, 3, 5]) {
      const seen: string[] = []
      for (let options: ReadOptions = { limit }; ; ) {
        const page = await readAll(store, 'p', options)
        seen.push(...page.map(idOfStored))
        const last = page.at(-1)
        if (!last) break
        options = { limit, after: last.cursor }
      }
      assert.deepEqual(seen, ids)
    }
  }),

  check('what is appended during a read is seen by it or by the next one, once', async (store) => {
    const ids = await appendSome(store)
    const seen: StoredEvent[] = []
    for await (const each of store.read('p')) {
      seen.push(each)
      if (seen.length > ids.length) continue
      await store.append('p', batchOf([event(`during-${seen.length}`)]))
    }
    const after = seen.at(-1)?.cursor as Cursor
    const all = [...seen, ...(await readAll(store, 'p', { after }))].map(idOfStored)
    assert.deepEqual(all, [...ids, ...ids.map((_, i) => `during-${i + 1}`)])
  }),

  check('a read that is left early disturbs nothing', async (store) => {
    const ids = await appendSome(store)
    for await (const each of store.read('p')) if (idOfStored(each) === ids[1]) break
    await store.append('p', batchOf([event('later')]))
    assert.deepEqual(await idsOf(store), [...ids, 'later'])
  }),

  check('what cannot be a cursor is refused with invalid-cursor', async (store) => {
    await appendSome(store)
    const strange = ['', 'x', '-1', '1.5', ' 0', '0 ', '0\n', '1e3', 'NaN', '٣', '\u0000', '😀', '9'.repeat(5_000)]
    for (const after of strange) {
      await assertRefused(readAll(store, 'p', { after }), 'invalid-cursor', JSON.stringify(after.slice(0, 20)))
      await assertRefused(readAll(store, 'empty', { after }), 'invalid-cursor', 'in an empty project')
    }
  }),

  check('a cursor is short, and goes into an address and a command line as it is', async (store) => {
    await appendSome(store)
    const cursors = [await store.lastCursor('p'), await store.lastCursor('empty')]
    for (const { cursor } of await readAll(store)) cursors.push(cursor)
    for (const cursor of cursors) assert.match(cursor, /^[A-Za-z0-9][\w-]{0,39}$/)
  }),

  check('a cursor of another store is refused, also where both have the same events', async (store, open) => {
    const other = await open()
    try {
      const cursors = [await other.lastCursor('p'), await other.lastCursor('empty')]
      for (const each of [store, other]) await appendSome(each)
      for (const { cursor } of await readAll(other)) cursors.push(cursor)
      for (const after of cursors) {
        for (const projectId of ['p', 'empty']) {
          await assertRefused(readAll(store, projectId, { after }), 'invalid-cursor', 'a cursor of another store')
        }
      }
    } finally {
      await other.close()
    }
  }),

  check('a cursor of another project is refused', async (store) => {
    const starts = [await store.lastCursor('p'), await store.lastCursor('q'), await store.lastCursor('empty')]
    await appendSome(store)
    const [ofP, ofQ] = [await readAll(store, 'p'), await readAll(store, 'q')]
    const refused: [string, Cursor][] = [
      ['q', starts[0] as Cursor],
      ['empty', starts[0] as Cursor],
      ['p', starts[1] as Cursor],
      ['p', starts[2] as Cursor],
      ...ofP.flatMap(({ cursor }): [string, Cursor][] => [
        ['q', cursor],
        ['empty', cursor],
      ]),
      ...ofQ.map(({ cursor }): [string, Cursor] => ['p', cursor]),
    ]
    for (const [projectId, after] of refused) {
      await assertRefused(
        readAll(store, projectId, { after, limit: 0 }),
        'invalid-cursor',
        'a cursor of another project',
      )
    }
  }),

  check('a cursor that was changed in any character is refused', async (store) => {
    const start = await store.lastCursor('p')
    await appendSome(store)
    const { cursor } = (await readAll(store))[2] as StoredEvent
    for (const whole of [start, cursor]) {
      for (const i of range(whole.length)) {
        for (const character of ['A', 'B', '_', '='].filter((each) => each !== whole[i])) {
          const after = `${whole.slice(0, i)}${character}${whole.slice(i + 1)}`
          await assertRefused(readAll(store, 'p', { after }), 'invalid-cursor', `character ${i} as ${character}`)
        }
      }
      for (const after of [`${whole}A`, whole.slice(0, -1), whole.slice(1), `${whole} `, `${whole}=`]) {
        await assertRefused(readAll(store, 'p', { after }), 'invalid-cursor', JSON.stringify(after))
      }
    }
  }),

  check('the time at which events were received never decreases along the log', async (store) => {
    for (const [i, receivedAt] of [5_000, 4_000, 4_999, 5_001, 1, 6_000].entries()) {
      await store.append('p', batchOf([event(`${i}`, { buildId: `${i}` })], { receivedAt }))
    }
    const events = await readAll(store)
    const times = [5_000, 5_000, 5_000, 5_001, 5_001, 6_000]
    assert.deepEqual(
      events.map(({ receivedAt }) => receivedAt),
      times,
    )
    for (const [i, time] of times.entries()) {
      assert.equal((await store.find('p', `${i}`))?.receivedAt, time)
      assert.equal(await frozenAt(store, `${i}`), time)
    }
  }),

  check('a read from a time gives what was received then or later', async (store) => {
    const times = range(40).map((i) => 1_000 + 10 * Math.floor(i / 3))
    for (const [i, receivedAt] of times.entries()) {
      await store.append(i % 4 === 1 ? 'q' : 'p', batchOf([event(`${i}-a`), event(`${i}-b`)], { receivedAt }))
    }
    const events = await readAll(store)
    const since = (from: number) => events.filter(({ receivedAt }) => receivedAt >= from)
    for (const from of [-1, 0, 999, ...range(140).map((i) => 1_000 + i), 1e15]) {
      assert.deepEqual(await readAll(store, 'p', { from }), since(from), `from ${from}`)
    }
    for (const [i, { cursor: after }] of events.entries()) {
      for (const from of [0, 1_050, 1_051, 1_130, 1_131]) {
        const expected = since(from).filter((each) => events.indexOf(each) > i)
        assert.deepEqual(await readAll(store, 'p', { after, from, limit: 3 }), expected.slice(0, 3))
      }
    }
    assert.deepEqual(await readAll(store, 'empty', { from: 0 }), [])
  }),

  check('the last cursor is that of the last event, and behind it is what comes later', async (store) => {
    await store.append('q', batchOf([event('other')]))
    const before = await store.lastCursor('p')
    assert.deepEqual(await readAll(store, 'p', { after: before }), [])
    await appendSome(store)
    assert.deepEqual(await readAll(store, 'p', { after: before }), await readAll(store))
    await store.append('q', batchOf([event('later')]))
    const after = await store.lastCursor('p')
    assert.equal(after, (await readAll(store)).at(-1)?.cursor)
    await store.append('p', batchOf([event('later')]))
    assert.deepEqual((await readAll(store, 'p', { after })).map(idOfStored), ['later'])
  }),

  check('a build that no event references is open', async (store) => {
    assert.deepEqual(await store.map({ projectId: 'p', placeId: 'x', buildId: 'b' }), {})
    await store.append('p', batchOf([event('a'), event('b', { buildId: 'other' })]))
    assert.deepEqual(await store.map({ projectId: 'p', placeId: 'x', buildId: 'b' }), {})
  }),

  check('the first stored event that references a build freezes every place of it', async (store) => {
    const texts = [event('a'), event('b', { buildId: 'b1' }), event('c', { buildId: 'b2' })]
    await store.append('p', batchOf(texts, { receivedAt: 7_000 }))
    for (const placeId of ['x', 'y', '1']) {
      for (const buildId of ['b1', 'b2']) {
        assert.deepEqual(await store.map({ projectId: 'p', placeId, buildId }), { frozenAt: 7_000 })
      }
    }
  }),

  check('later events do not change when a build froze', async (store) => {
    for (const receivedAt of [7_000, 8_000, 6_000]) {
      await store.append('p', batchOf([event(`at-${receivedAt}`, { buildId: 'b' })], { receivedAt }))
      assert.equal(await frozenAt(store, 'b'), 7_000)
    }
  }),

  check('duplicates freeze nothing', async (store) => {
    await store.append('p', batchOf([event('a')]))
    await store.append('p', batchOf([event('a', { buildId: 'b' })]))
    assert.equal(await frozenAt(store, 'b'), undefined)
    await store.append('p', batchOf([event('a', { buildId: 'b' }), event('new', { buildId: 'c' })]))
    assert.equal(await frozenAt(store, 'b'), undefined)
    assert.notEqual(await frozenAt(store, 'c'), undefined)
  }),

  check('rejected events freeze nothing', async (store) => {
    const texts = [event('bad', { buildId: 'b' }), event('good', { buildId: 'c' })]
    await store.append('p', batchOf(texts, { indexes: [1] }))
    assert.equal(await frozenAt(store, 'b'), undefined)
    assert.notEqual(await frozenAt(store, 'c'), undefined)
    assert.deepEqual(await store.known('p', ['bad']), [false])
  }),

  check('a build freezes in its own project only', async (store) => {
    await store.append('p', batchOf([event('a', { buildId: 'b' })]))
    assert.equal(await frozenAt(store, 'b', 'q'), undefined)
    await store.append('q', batchOf([event('a', { buildId: 'b' })], { receivedAt: 9_000 }))
    assert.equal(await frozenAt(store, 'b', 'q'), 9_000)
    assert.notEqual(await frozenAt(store, 'b'), 9_000)
  }),

  check('builds are compared byte for byte', async (store) => {
    const builds = lookAlikes.filter((id) => Buffer.byteLength(id) <= 128)
    for (const [i, buildId] of builds.entries()) {
      assert.equal(await frozenAt(store, buildId), undefined, JSON.stringify(buildId))
      await store.append('p', batchOf([event(`${i}`, { buildId })], { receivedAt: i }))
    }
    for (const [i, buildId] of builds.entries()) assert.equal(await frozenAt(store, buildId), i)
  }),

  check('totals count events, and batches of which something was stored', async (store) => {
    assert.deepEqual(await store.totals('p'), { events: 0, batches: 0, bytes: 0 })
    await store.append('p', batchOf([event('a'), event('b')]))
    const { bytes, ...first } = await store.totals('p')
    assert.deepEqual(first, { events: 2, batches: 1 })
    assert.ok(bytes > 0)
    await store.append('p', batchOf([event('a', { other: true }), event('b')]))
    assert.deepEqual(await store.totals('p'), { ...first, bytes }, 'duplicates do not count')
    await store.append('p', batchOf([event('a'), event('c')]))
    const second = await store.totals('p')
    assert.deepEqual([second.events, second.batches], [3, 2])
    assert.ok(second.bytes > bytes)
    assert.deepEqual(await store.totals('q'), { events: 0, batches: 0, bytes: 0 })
  }),

  check('the activity of a project is when its first, its last and its newest batches came', async (store) => {
    const recent = { since: 5_000, batchesMax: 100 }
    assert.equal(await store.activity('p', recent), undefined)
    await store.append('q', batchOf([event('a')], { receivedAt: 1 }))
    assert.equal(await store.activity('p', recent), undefined, 'another project is not meant')
    await store.append('p', batchOf([event('a'), event('b')], { receivedAt: 4_999 }))
    const before = { firstAt: 4_999, lastAt: 4_999, recent: { events: 0, since: 5_000 } }
    assert.deepEqual(await store.activity('p', recent), before)
    await store.append('q', batchOf([event('b')], { receivedAt: 5_500 }))
    await store.append('p', batchOf([event('a')], { receivedAt: 9_000 }))
    assert.deepEqual(await store.activity('p', recent), before, 'duplicates do not count')
    await store.append('p', batchOf([event('c'), event('d'), event('b')], { receivedAt: 5_000 }))
    await store.append('p', batchOf([event('e')], { receivedAt: 6_000 }))
    await store.append('q', batchOf([event('c')], { receivedAt: 7_000 }))
    assert.deepEqual(await store.activity('p', recent), {
      firstAt: 4_999,
      lastAt: 6_000,
      recent: { events: 3, since: 5_000 },
    })
  }),

  check('of the activity no more batches are counted than is asked for', async (store) => {
    for (const i of range(70)) {
      await store.append('p', batchOf([event(`${i}-a`), event(`${i}-b`)], { receivedAt: 1_000 + i }))
    }
    for (const [batchesMax, expected] of [
      [1, { events: 2, since: 1_069 }],
      [63, { events: 126, since: 1_007 }],
      [64, { events: 128, since: 1_006 }],
      [65, { events: 130, since: 1_005 }],
      [70, { events: 140, since: 1_000 }],
      [71, { events: 140, since: 500 }],
    ] as const) {
      const activity = await store.activity('p', { since: 500, batchesMax })
      assert.deepEqual(activity, { firstAt: 1_000, lastAt: 1_069, recent: expected })
    }
    assert.deepEqual((await store.activity('p', { since: 1_003, batchesMax: 1_000 }))?.recent, {
      events: 134,
      since: 1_003,
    })
  }),

  check('builds are those that are frozen and those that have maps, in the order of their bytes', async (store) => {
    assert.deepEqual(await store.builds('p', { limit: 10 }), [])
    await store.append('q', batchOf([event('a', { buildId: 'another' })]))
    assert.deepEqual(await store.builds('p', { limit: 10 }), [], 'another project is not meant')
    await store.append('p', batchOf([event('a', { buildId: 'b' })], { receivedAt: 7_000 }))
    await store.append('p', batchOf([event('b', { buildId: 'B' })], { receivedAt: 8_000 }))
    await store.append('p', batchOf([event('c', { buildId: '\uffff' })], { receivedAt: 9_000 }))
    for (const [buildId, placeId] of [
      ['b', '1'],
      ['b', '2'],
      ['b ', '1'],
      ['b!', '1'],
      ['😀', '1'],
    ] as const) {
      await publishEmpty(store, buildId, placeId)
    }
    const all = [
      { buildId: 'B', frozenAt: 8_000, maps: 0 },
      { buildId: 'b', frozenAt: 7_000, maps: 2 },
      { buildId: 'b ', maps: 1 },
      { buildId: 'b!', maps: 1 },
      { buildId: '\uffff', frozenAt: 9_000, maps: 0 },
      { buildId: '😀', maps: 1 },
    ]
    assert.deepEqual(await store.builds('p', { limit: 10 }), all)
    for (const [i, { buildId }] of all.entries()) {
      assert.deepEqual(await store.builds('p', { after: buildId, limit: 10 }), all.slice(i + 1))
      assert.deepEqual(await store.builds('p', { after: buildId, limit: 1 }), all.slice(i + 1, i + 2))
      assert.deepEqual(await store.builds('p', { limit: i + 1 }), all.slice(0, i + 1))
    }
    assert.deepEqual(await store.builds('p', { after: 'a', limit: 1 }), all.slice(1, 2), 'behind one that is not there')
  }),

  check('pages of builds make up the whole', async (store) => {
    const count = 1_200
    for (let i = 0; i < count; i += 100) {
      const texts = range(100).map((n) => event(`${i + n}`, { buildId: nameOfBuild(i + n) }))
      await store.append('p', batchOf(texts, { receivedAt: i }))
    }
    for (let i = 0; i < count; i += 300) await publishEmpty(store, nameOfBuild(i), '1')
    for (const limit of [7, 1_000, 5_000]) {
      const seen: BuildEntry[] = []
      for (let after: string | undefined; ; after = seen.at(-1)?.buildId) {
        const page = await store.builds('p', { ...(after !== undefined && { after }), limit })
        seen.push(...page)
        if (page.length < limit) break
      }
      assert.deepEqual(
        seen,
        range(count).map((i) => ({ buildId: nameOfBuild(i), frozenAt: i - (i % 100), maps: i % 300 === 0 ? 1 : 0 })),
      )
    }
  }),

  check('a manifest that waits counts as a map, until it is dropped', async (store) => {
    const manifest = { contentType: 'a/b', size: 1, digest: `sha256:${'0'.repeat(64)}`, chunks: [] }
    const contents = { pending: { manifest: { ...manifest, chunks: [{ ...manifest, size: 1 }] }, touchedAt: 5 } }
    const key = { projectId: 'p', placeId: '1', buildId: 'b' }
    await store.updateMap(key, {}, () => ({ contents, result: undefined }))
    assert.deepEqual(await store.builds('p', { limit: 10 }), [{ buildId: 'b', maps: 1 }])
    await store.dropIdleMaps(6)
    assert.deepEqual(await store.builds('p', { limit: 10 }), [])
  }),

  check('projects are those that anything was stored for, in the order of their bytes', async (store) => {
    assert.deepEqual(await store.projects(), [])
    await store.known('q', ['a'])
    await store.project('q')
    assert.deepEqual(await store.projects(), [], 'a look stores nothing')
    await store.append('b', batchOf([event('a')]))
    for (const projectId of ['a.b', 'a']) {
      await store.updateProject(projectId, () => ({ project: { ...projectWith([]), projectId }, result: 1 }))
    }
    await store.append('a', batchOf([event('a')]))
    await publishEmpty(store, 'b', '1', 'B')
    await store.append('_', batchOf([event('a')]))
    assert.deepEqual(await store.projects(), ['B', '_', 'a', 'a.b', 'b'])
  }),

  check('a project is created, read and changed', async (store) => {
    assert.equal(await store.project('p'), undefined)
    const created = projectWith(['k1'])
    const result = await store.updateProject('p', (project) => ({ project: created, result: project ?? 'new' }))
    assert.equal(result, 'new')
    assert.deepEqual(await store.project('p'), created)
    const changed = projectWith(['k1', 'k2'])
    const seen = await store.updateProject('p', (project) => ({ project: changed, result: project }))
    assert.deepEqual(seen, created)
    assert.deepEqual(await store.project('p'), changed)
    assert.equal(await store.project('q'), undefined)
  }),

  check('a decision without a project writes nothing', async (store) => {
    assert.equal(await store.updateProject('p', () => ({ result: 1 })), 1)
    assert.equal(await store.project('p'), undefined)
    await store.updateProject('p', () => ({ project: projectWith(['k1']), result: undefined }))
    assert.equal(await store.updateProject('p', () => ({ result: 'kept' })), 'kept')
    assert.deepEqual(await store.project('p'), projectWith(['k1']))
  }),

  check('what a decision throws is what the update rejects with, and nothing is written', async (store) => {
    await store.updateProject('p', () => ({ project: projectWith(['k1']), result: undefined }))
    const thrown = new RangeError('no')
    const throwing = store.updateProject('p', () => {
      throw thrown
    })
    assert.equal(await rejectionOf(throwing), thrown)
    assert.deepEqual(await store.project('p'), projectWith(['k1']))
  }),

  check('a decision that throws disturbs nobody else', async (store) => {
    const thrown = new Error('no')
    const refuse = () => {
      throw thrown
    }
    const [first, refusal, update, last] = await Promise.all([
      store.append('p', batchOf([event('first')])),
      rejectionOf(store.updateProject('p', refuse)),
      store.updateProject('p', () => ({ project: projectWith([]), result: 'updated' })),
      store.append('p', batchOf([event('last')])),
    ])
    assert.deepEqual([first.stored, refusal, update, last.stored], [[true], thrown, 'updated', [true]])
    assert.deepEqual((await idsOf(store)).sort(), ['first', 'last'])
    assert.deepEqual(await store.project('p'), projectWith([]))
  }),

  check('a project and the events of its name are separate', async (store) => {
    await store.updateProject('p', () => ({ project: projectWith(['k1']), result: undefined }))
    await store.append('p', batchOf([event('a')]))
    assert.deepEqual(await store.project('p'), projectWith(['k1']))
    await store.updateProject('p', () => ({ project: projectWith([]), result: undefined }))
    assert.deepEqual(await idsOf(store), ['a'])
  }),

  check('of 50 concurrent updates of a project none is lost', async (store) => {
    const ids = range(50).map((i) => `k${i}`)
    await Promise.all(
      ids.map((id) =>
        store.updateProject('p', (project) => {
          const keys = [...(project?.keys ?? []), keyRecord(id)]
          return { project: { ...projectWith([]), keys }, result: undefined }
        }),
      ),
    )
    const kept = (await store.project('p'))?.keys.map(({ keyId }) => keyId)
    assert.deepEqual(kept?.sort(), ids.sort())
  }),

  check('of 16 concurrent appends of a batch exactly one stores each event', async (store) => {
    const ids = range(10).map((i) => `e-${i}`)
    const results = await Promise.all(
      range(16).map(async () => {
        const result = await store.append('p', batchOf(ids.map((id) => event(id))))
        assert.deepEqual(
          await store.known('p', ids),
          ids.map(() => true),
          'an answered event is there',
        )
        return result
      }),
    )
    assert.deepEqual(
      timesStored(results),
      ids.map(() => 1),
    )
    assert.ok(results.every(({ conflicts }) => conflicts === 0))
    assert.deepEqual(await idsOf(store), ids)
    assert.equal((await store.totals('p')).events, ids.length)
  }),

  check(
    'of overlapping concurrent batches each event is stored once, as the one that says so sent it',
    async (store) => {
      const batches = range(24).map((b) => range(20).map((i) => `e-${(b * 7 + i * 11) % 60}`))
      const results = await Promise.all(
        batches.map((ids, b) => store.append('p', batchOf(ids.map((id) => event(id, { sentBy: b }))))),
      )
      const winners = batches.flatMap((ids, b) =>
        ids.filter((_, i) => results[b]?.stored[i]).map((id) => event(id, { sentBy: b })),
      )
      assert.equal(winners.length, 60)
      assert.deepEqual((await textsOf(store)).sort(), winners.sort())
      assert.equal(sum(results.map(({ conflicts }) => conflicts)), 24 * 20 - 60)
      assert.equal((await store.totals('p')).events, 60)
    },
  ),

  check('concurrent appends of one id in two projects store both', async (store) => {
    const projectIds = ['p', 'q', 'r']
    const results = await Promise.all(projectIds.map((id) => store.append(id, batchOf([event('a')]))))
    assert.deepEqual(
      results,
      projectIds.map(() => ({ stored: [true], conflicts: 0 })),
    )
  }),

  check('concurrent appends that freeze one build agree on when', async (store) => {
    const texts = range(16).map((i) => event(`${i}`, { buildId: 'b' }))
    const seen = await Promise.all(
      texts.map(async (text, i) => {
        await store.append('p', batchOf([text], { receivedAt: 1_000 + i }))
        return frozenAt(store, 'b')
      }),
    )
    const [first] = await readAll(store)
    assert.deepEqual(
      seen,
      texts.map(() => first?.receivedAt),
    )
  }),

  check(
    'readers during appends see every event once, in one order, whole batches, and their builds frozen',
    async (store) => {
      let running = true
      const writers = range(4).map(async (writer) => {
        for (const i of range(6)) await store.append('p', watchedBatch(`${writer}-${i}`))
      })
      const writing = Promise.all(writers).finally(() => {
        running = false
      })
      const [, ...seen] = await Promise.all([writing, ...range(3).map(() => watch(store, () => running))])
      const ids = await idsOf(store)
      assert.equal(ids.length, 4 * 6 * watchedBatchSize)
      for (const each of seen) assert.deepEqual(each, ids)
    },
  ),

  check('a store that is open can be checked', async (store) => {
    assert.equal(await store.check(), undefined)
  }),

  check('after close every operation is refused with store-closed', async (store) => {
    await appendSome(store)
    const read = store.read('p')[Symbol.asyncIterator]()
    await store.close()
    await assertRefused(store.append('p', batchOf([event('a')])), 'store-closed', 'append')
    await assertRefused(store.known('p', ['a']), 'store-closed', 'known')
    await assertRefused(store.find('p', 'a'), 'store-closed', 'find')
    await assertRefused(readAll(store), 'store-closed', 'read')
    await assertRefused(read.next(), 'store-closed', 'read, begun before')
    await assertRefused(store.lastCursor('p'), 'store-closed', 'lastCursor')
    await assertRefused(store.map({ projectId: 'p', placeId: 'x', buildId: 'b' }), 'store-closed', 'map')
    const mapKey = { projectId: 'p', placeId: 'x', buildId: 'b' }
    const digest = `sha256:${'0'.repeat(64)}`
    await assertRefused(store.maps('p', { limit: 1 }), 'store-closed', 'maps')
    await assertRefused(
      store.updateMap(mapKey, {}, () => ({ result: 1 })),
      'store-closed',
      'updateMap',
    )
    const chunk = { digest, bytes: Buffer.of(1), receivedAt: 1 }
    await assertRefused(store.putChunk('p', chunk), 'store-closed', 'putChunk')
    await assertRefused(store.chunk('p', digest, String), 'store-closed', 'chunk')
    await assertRefused(store.presentChunks('p', [digest]), 'store-closed', 'presentChunks')
    await assertRefused(store.readyMaps('p', 1), 'store-closed', 'readyMaps')
    await assertRefused(store.pendingBytes('p'), 'store-closed', 'pendingBytes')
    await assertRefused(store.dropIdleMaps(1), 'store-closed', 'dropIdleMaps')
    await assertRefused(store.totals('p'), 'store-closed', 'totals')
    await assertRefused(store.activity('p', { since: 1, batchesMax: 1 }), 'store-closed', 'activity')
    await assertRefused(store.builds('p', { limit: 1 }), 'store-closed', 'builds')
    await assertRefused(store.projects(), 'store-closed', 'projects')
    await assertRefused(store.project('p'), 'store-closed', 'project')
    await assertRefused(
      store.updateProject('p', () => ({ result: 1 })),
      'store-closed',
      'updateProject',
    )
    await assertRefused(store.check(), 'store-closed', 'check')
  }),

  check('a store may be closed twice, also at once', async (store) => {
    await Promise.all([store.close(), store.close()])
    await store.close()
  }),

  check('a close waits for the appends that have begun', async (store) => {
    let unsettled = 0
    const appends = range(8).map((i) => {
      unsettled++
      return outcomeOf(store.append('p', batchOf([event(`${i}`)]))).finally(() => unsettled--)
    })
    await store.close()
    await nextTurn()
    assert.equal(unsettled, 0)
    for (const outcome of await Promise.all(appends))
      assert.ok(outcome === 'stored' || outcome === 'store-closed', outcome)
  }),
]

/**
 * What a store promises besides, if what it keeps outlives its process.
 *
 * ```ts
 * for (const { name, run } of durableStoreChecks) test(name, () => run(openMyStore, reopenMyStore))
 * ```
 */
export const durableStoreChecks: readonly DurableStoreCheck[] = [
  ...durableMapStoreChecks.map(({ name, use }) => durableCheck(name, use)),

  durableCheck('events, their bytes and their cursors outlive a close', async (store, reopen) => {
    await store.append('p', batchOf(oddEvents))
    await store.append('q', batchOf([event('a')], { receivedAt: 9_000 }))
    const before = [await readAll(store, 'p'), await readAll(store, 'q')] as const
    const reopened = await reopen()
    assert.deepEqual([await readAll(reopened, 'p'), await readAll(reopened, 'q')], before)
    for (const [i, { cursor }] of before[0].entries()) {
      assert.deepEqual(await readAll(reopened, 'p', { after: cursor }), before[0].slice(i + 1))
    }
    for (const text of oddEvents) assert.equal(textOf(await reopened.find('p', idOf(text))), text)
  }),

  durableCheck('an event that was stored before a close is a duplicate after it', async (store, reopen) => {
    await store.append('p', batchOf([event('a'), event('b')]))
    const reopened = await reopen()
    assert.deepEqual(await reopened.known('p', ['a', 'b', 'c']), [true, true, false])
    const result = await reopened.append('p', batchOf([event('c'), event('b'), event('a', { other: true })]))
    assert.deepEqual(result, { stored: [true, false, false], conflicts: 1 })
    assert.deepEqual(await idsOf(reopened), ['a', 'b', 'c'])
  }),

  durableCheck('freezes, totals and projects outlive a close', async (store, reopen) => {
    await store.append('p', batchOf([event('a', { buildId: 'b' })], { receivedAt: 7_000 }))
    await store.updateProject('p', () => ({ project: projectWith(['k1', 'k2']), result: undefined }))
    const totals = await store.totals('p')
    const reopened = await reopen()
    assert.deepEqual(await reopened.totals('p'), totals)
    assert.deepEqual(await reopened.activity('p', { since: 7_000, batchesMax: 9 }), {
      firstAt: 7_000,
      lastAt: 7_000,
      recent: { events: 1, since: 7_000 },
    })
    assert.deepEqual(await reopened.builds('p', { limit: 9 }), [{ buildId: 'b', frozenAt: 7_000, maps: 0 }])
    assert.deepEqual(await reopened.projects(), ['p'])
    assert.deepEqual(await reopened.project('p'), projectWith(['k1', 'k2']))
    await reopened.append('p', batchOf([event('later', { buildId: 'b' })], { receivedAt: 8_000 }))
    assert.equal(await frozenAt(reopened, 'b'), 7_000)
    assert.equal((await reopened.totals('p')).events, totals.events + 1)
  }),

  durableCheck('the time at which events were received never decreases over a close', async (store, reopen) => {
    await store.append('p', batchOf([event('a')], { receivedAt: 9_000 }))
    const reopened = await reopen()
    await reopened.append('p', batchOf([event('b')], { receivedAt: 8_000 }))
    assert.deepEqual(
      (await readAll(reopened)).map(({ receivedAt }) => receivedAt),
      [9_000, 9_000],
    )
  }),

  durableCheck('after a close an append is there if it resolved, and not if it rejected', async (store, reopen) => {
    const ids = range(8).map((i) => `e-${i}`)
    const appends = ids.map((id) => outcomeOf(store.append('p', batchOf([event(id)]))))
    const closing = store.close()
    appends.push(outcomeOf(store.append('p', batchOf([event('late')]))))
    await closing
    const outcomes = await Promise.all(appends)
    const known = await (await reopen()).known('p', [...ids, 'late'])
    assert.deepEqual(
      known,
      outcomes.map((outcome) => outcome === 'stored'),
    )
    assert.equal(outcomes.at(-1), 'store-closed')
  }),
]

/**
 * What a store promises besides, of which backups can be restored. Where a directory may be put back by hand, run them
 * with that as well.
 *
 * ```ts
 * for (const { name, run } of restoreChecks) test(name, () => run(openMyStore, reopenMyStore, backUpMyStore))
 * ```
 */
export const restoreChecks: readonly RestoreCheck[] = [
  restoreCheck('a cursor of an event that the backup does not have is refused', async ({ before, lost, restored }) => {
    for (const after of lost) {
      await assertRefused(readAll(restored, 'p', { after }), 'invalid-cursor', 'a cursor beyond the end')
      await assertRefused(readAll(restored, 'empty', { after }), 'invalid-cursor', 'a cursor of another project')
    }
    // longer than it was, with events that stand where the lost ones stood
    for (const i of range(30)) {
      await restored.append('p', batchOf([event(`new-${i}-a`), event(`new-${i}-b`), event(`new-${i}-c`)]))
      for (const after of lost) await assertRefused(readAll(restored, 'p', { after }), 'invalid-cursor', 'a lost event')
    }
    assert.equal((await readAll(restored)).length, before.length + 90)
  }),

  restoreCheck('no cursor from before skips an event without a refusal', async ({ before, lost, start, restored }) => {
    // the events that were lost are sent again, in another order
    const again = ['lost-3', 'lost-0', 'lost-2', 'new', 'lost-1']
    for (const id of again) await restored.append('p', batchOf([event(id)]))
    const all = [...before.map(idOfStored), ...again]
    const cursors = [start, ...before.map(({ cursor }) => cursor), ...lost]
    for (const [i, after] of cursors.entries()) {
      const ids = await readAll(restored, 'p', { after }).then(
        (events) => events.map(idOfStored),
        (error) => codeOf(error),
      )
      assert.deepEqual(ids, ids === 'invalid-cursor' ? ids : all.slice(i))
    }
  }),

  restoreCheck('the cursors that it gives out are good from then on', async ({ restored, reopen }) => {
    const last = await restored.lastCursor('p')
    const empty = await restored.lastCursor('empty')
    await restored.append('p', batchOf([event('new')]))
    const events = await readAll(restored)
    const reopened = await reopen()
    assert.deepEqual((await readAll(reopened, 'p', { after: last })).map(idOfStored), ['new'])
    assert.deepEqual(await readAll(reopened, 'empty', { after: empty }), [])
    for (const [i, { cursor: after }] of events.entries()) {
      assert.deepEqual(await readAll(reopened, 'p', { after }), events.slice(i + 1))
    }
  }),
]

/** A store as it is after a backup with five events of `p` was restored, which had four more by then. */
interface Restored {
  /** The cursor before all events. */
  start: Cursor
  /** The events in the backup, as they were before. */
  before: StoredEvent[]
  /** The cursors of events that came after the backup. */
  lost: Cursor[]
  restored: Store
  reopen: () => Promise<Store>
}

function restoreCheck(name: string, use: (state: Restored) => Promise<void>): RestoreCheck {
  return {
    name,
    async run(open, reopen, backUp) {
      let store = await open()
      try {
        const start = await store.lastCursor('p')
        await appendSome(store)
        const before = await readAll(store)
        await store.close()
        const restore = await backUp(store)
        store = await reopen(store)
        for (const i of range(4)) await store.append('p', batchOf([event(`lost-${i}`)]))
        const lost = (await readAll(store)).slice(before.length).map(({ cursor }) => cursor)
        assert.equal(lost.length, 4)
        await store.close()
        store = await restore()
        const again = async () => {
          await store.close()
          store = await reopen(store)
          return store
        }
        await use({ start, before, lost, restored: store, reopen: again })
      } finally {
        await store.close()
      }
    },
  }
}

function check(name: string, use: (store: Store, open: OpenStore) => Promise<void>): StoreCheck {
  return {
    name,
    async run(open) {
      const store = await open()
      try {
        await use(store, open)
      } finally {
        await store.close()
      }
    },
  }
}

function durableCheck(
  name: string,
  use: (store: Store, reopen: () => Promise<Store>) => Promise<void>,
): DurableStoreCheck {
  return {
    name,
    async run(open, reopen) {
      let store = await open()
      try {
        await use(store, async () => {
          await store.close()
          store = await reopen(store)
          return store
        })
      } finally {
        await store.close()
      }
    },
  }
}

interface BatchOptions {
  receivedAt?: number
  /** The elements of `events` that are to be stored; all without it. */
  indexes?: readonly number[]
}

/** A batch of these events, each given as its JSON. */
function batchOf(texts: readonly string[], options: BatchOptions = {}): AppendBatch {
  return batchFrom(`{"events":[${texts.join(',')}]}`, options)
}

function batchFrom(body: string, { receivedAt = 1_000, indexes }: BatchOptions = {}): AppendBatch {
  const { events: all } = JSON.parse(body) as { events: { eventId: string; buildId?: string }[] }
  const bytes = Buffer.from(body)
  const slices = sliceEvents(bytes)
  const events = (indexes ?? range(all.length)).map((index) => {
    const { eventId, buildId } = all[index] as { eventId: string; buildId?: string }
    const slice = slices[index] as Slice
    return buildId === undefined ? { eventId, ...slice } : { eventId, buildId, ...slice }
  })
  return { body: bytes, count: all.length, events, receivedAt }
}

function event(eventId: string, members: object = {}): string {
  return JSON.stringify({ projectId: 'p', eventId, ...members })
}

const oddEvents: readonly string[] = [
  '{ "projectId" :"p",\t"eventId":\n"spaces" ,"list": [ 1 , 2\r\n] , "empty":{ } }',
  '{"projectId":"p","eventId":"numbers","a":12345678901234567890,"b":1.0,"c":1E+2,"d":-0,"e":1e400,"f":0.1e-7}',
  '{"projectId":"p","eventId":"repeated","a":1,"a":{"a":2},"a":3}',
  '{"projectId":"p","eventId":"first","eventId":"last"}',
  '{"\\u0065vent\\u0049d":"escaped key","projectId":"p"}',
  '{"projectId":"p","eventId":"\\u0061\\/\\ud83d\\uDE00\\"\\\\"}',
  '{"projectId":"p","eventId":"brackets","a":"}]},[{\\"","b":"\\\\","c":"\\\\\\"]","]":"}"}',
  '{"projectId":"p","events":[{"eventId":"inner"}],"of":{"eventId":"inner"},"eventId":"nested"}',
  '{"projectId":"p","eventId":"unicode","é":"e\u0301 日本語 😀 \u2028\u2029\u007f\ufeff"}',
  '{"projectId":"p","eventId":"surrogate","a":"\\ud800","b":"\\udc00\\ud800","c":"\\u0000"}',
  '{"projectId":"p","eventId":"proto","__proto__":{"eventId":"inner"},"constructor":null}',
  '{"eventId":"short"}',
  `{"projectId":"p","eventId":"deep","a":${'['.repeat(30)}{}${']'.repeat(30)}}`,
]

/** Ways to write a body around an array of events. */
const envelopes: readonly ((events: string) => string)[] = [
  (events) => `{"events":${events}}`,
  (events) => ` \r\n\t{ "events"\n:\t${events} }\n `,
  (events) => `{"\\u0065vent\\u0073":${events}}`,
  (events) => `{"events":[{"eventId":"lost"}],"events":${events}}`,
  (events) => `{"events":[{"eventId":"lost"}],"\\u0065vents":null,"events" :${events},"Events":[1],"events ":[2]}`,
  (events) => `{"a":{"events":[{"eventId":"inner"}]},"b":["events",[{}]],"events":${events},"c":{"events":[3]}}`,
  (events) => `{"a":"\\"events\\":[","b":-1.5e3,"c":true,"d":null,"\\"":"\\\\","events":${events},"e":"}","f":"]"}`,
  (events) => `{"":{},"é😀":"\u2028","events\\u0000":[4],"__proto__":{"events":[5]},"events":${events},"z":0 }`,
]

/** Ids that are one only after some folding, trimming, normalising, unescaping or shortening. */
const lookAlikes: readonly string[] = [
  ...['a', 'A', ' a', 'a ', '  a', 'a\u00a0', 'a\u200b', '\ufeffa', 'aa', 'b', '`'],
  ...[
    '\u00e9',
    'e\u0301',
    'e',
    '\u00c5',
    '\u212b',
    'A\u030a',
    '\ufb01',
    'fi',
    'ß',
    'ss',
    'SS',
    'İ',
    'i̇',
    'ı',
    'ä',
    'ae',
  ],
  ...['1', '01', '1.0', '+1', '１', '0x1', 'true', 'null', 'undefined', '[]', '{}', ' '],
  ...['"', '\\', '\\"', '""', '\\\\', '/', '\\/', '\\u0061', '%61', '&amp;', '&', "'", '\u2028', '\u0080'],
  ...['😀', '😁', '\u{10ffff}', '\uffff', '\ud7ff', '\ue000', '👩‍👩‍👧', '👩‍👩‍👦'],
  ...['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'length'],
  ...['x'.repeat(254), 'x'.repeat(255), 'x'.repeat(256), `${'x'.repeat(255)}y`, `y${'x'.repeat(255)}`],
  ...[
    'é'.repeat(64),
    `${'é'.repeat(63)}è`,
    'é'.repeat(128),
    `${'é'.repeat(127)}è`,
    '😀'.repeat(64),
    `${'😀'.repeat(63)}😁`,
  ],
]

/** Stores five events in three batches, with another project's between them, and gives their ids in order. */
async function appendSome(store: Store): Promise<string[]> {
  await store.append('q', batchOf([event('a')]))
  await store.append('p', batchOf([event('a', { buildId: 'b' }), event('b')]))
  await store.append('q', batchOf([event('b')]))
  await store.append('p', batchOf([event('b'), event('c')]))
  await store.append('p', batchOf([event('d'), event('x'), event('e')], { indexes: [0, 2] }))
  return ['a', 'b', 'c', 'd', 'e']
}

async function appendAll(store: Store, batches: readonly AppendBatch[]): Promise<AppendResult[]> {
  return Promise.all(batches.map((batch) => store.append('p', batch)))
}

const watchedBatchSize = 5

/** A batch whose events are named after it, as is the build that the last of them references. */
function watchedBatch(name: string): AppendBatch {
  return batchOf(watchedIds(name).map((id, i) => event(id, i === watchedBatchSize - 1 ? { buildId: name } : {})))
}

function watchedIds(name: string): string[] {
  return range(watchedBatchSize).map((i) => `${name}/${i}`)
}

/** Reads on and on until nothing is running, and for each event looks at what must have become visible with it. */
async function watch(store: Store, isRunning: () => boolean): Promise<string[]> {
  const seen: string[] = []
  let options: ReadOptions = {}
  for (let last = false; !last; ) {
    last = !isRunning()
    for await (const each of store.read('p', options)) {
      options = { after: each.cursor }
      const id = idOfStored(each)
      seen.push(id)
      const [batch] = id.split('/') as [string]
      assert.notEqual(await frozenAt(store, batch), undefined, 'an event is visible and its build is open')
      const known = await store.known('p', watchedIds(batch))
      assert.ok(known.every(Boolean), 'an event is visible and others of its batch are not')
    }
    await nextTurn()
  }
  return seen
}

async function readAll(store: Store, projectId = 'p', options?: ReadOptions): Promise<StoredEvent[]> {
  const events: StoredEvent[] = []
  for await (const each of store.read(projectId, options)) events.push(each)
  // one kind of byte array, so that they can be compared
  return events.map(({ cursor, receivedAt, bytes }) => ({ cursor, receivedAt, bytes: Uint8Array.from(bytes) }))
}

async function textsOf(store: Store, projectId = 'p'): Promise<string[]> {
  return (await readAll(store, projectId)).map(textOf)
}

async function idsOf(store: Store, projectId = 'p'): Promise<string[]> {
  return (await readAll(store, projectId)).map(idOfStored)
}

function textOf(stored: StoredEvent | undefined): string {
  assert.ok(stored, 'the event is not there')
  return Buffer.from(stored.bytes).toString()
}

function idOfStored(stored: StoredEvent): string {
  return idOf(textOf(stored))
}

function idOf(text: string): string {
  return (JSON.parse(text) as { eventId: string }).eventId
}

/** The events of a batch that `event` wrote. */
function textsIn(batch: AppendBatch): string[] {
  const { events } = JSON.parse(Buffer.from(batch.body).toString()) as { events: object[] }
  return events.map((each) => JSON.stringify(each))
}

/** Publishes a map of no bytes. */
async function publishEmpty(store: Store, buildId: string, placeId: string, projectId = 'p'): Promise<void> {
  const manifest = { contentType: 'a/b', size: 0, digest: `sha256:${'0'.repeat(64)}`, chunks: [] }
  const contents = { complete: { manifest, publishedAt: 1 } }
  await store.updateMap({ projectId, placeId, buildId }, {}, () => ({ contents, result: undefined }))
}

function nameOfBuild(i: number): string {
  return `build-${String(i).padStart(6, '0')}`
}

async function frozenAt(store: Store, buildId: string, projectId = 'p'): Promise<number | undefined> {
  return (await store.map({ projectId, placeId: 'x', buildId })).frozenAt
}

function projectWith(keyIds: readonly string[]): Project {
  return { projectId: 'p', createdAt: 1_000, keys: keyIds.map(keyRecord) }
}

function keyRecord(keyId: string): KeyRecord {
  return { keyId, hash: '00', scopes: ['read', 'events:write'], createdAt: 1_000, expiresAt: 2_000 }
}

/** How often each event of one batch was stored, over all its appends. */
function timesStored(results: readonly AppendResult[]): number[] {
  const [first] = results as [AppendResult]
  return first.stored.map((_, i) => results.filter(({ stored }) => stored[i]).length)
}

async function outcomeOf(append: Promise<AppendResult>): Promise<string> {
  try {
    const { stored } = await append
    return stored.every(Boolean) ? 'stored' : 'duplicate'
  } catch (error) {
    return codeOf(error)
  }
}

async function assertRefused(promise: Promise<unknown>, code: string, what: string): Promise<void> {
  assert.equal(codeOf(await rejectionOf(promise)), code, `${what} is refused with ${code}`)
}

function codeOf(error: unknown): string {
  const { code } = error as { code?: unknown }
  return typeof code === 'string' ? code : String(error)
}

async function rejectionOf(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new assert.AssertionError({ message: 'it was not refused' })
}

function range(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i)
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0)
}
