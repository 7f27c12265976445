import assert from 'node:assert/strict'
import {
  batchFrom,
  batchOf,
  envelopes,
  event,
  idOf,
  idsOf,
  oddEvents,
  readAll,
  textOf,
  textsIn,
  textsOf,
} from './sample-events.ts'
import { check, range, type StoreCheck } from './store-check.ts'

export const appendChecks: readonly StoreCheck[] = [
  check('an append stores new events and says so for each', async (store) => {
    const result = await store.append('p', batchOf([event('a'), event('b'), event('c')]))
    assert.deepEqual(result, { stored: [true, true, true], conflicts: 0, frozen: [] })
    assert.deepEqual(await idsOf(store), ['a', 'b', 'c'])
  }),

  check('an append of no events stores nothing', async (store) => {
    assert.deepEqual(await store.append('p', batchOf([])), { stored: [], conflicts: 0, frozen: [] })
    assert.deepEqual(await idsOf(store), [])
  }),

  check('a second append of a batch stores nothing, and the same bytes are no conflict', async (store) => {
    const batch = batchOf([event('a'), event('b')])
    await store.append('p', batch)
    const before = await readAll(store)
    const result = await store.append('p', { ...batch, receivedAt: batch.receivedAt + 1 })
    assert.deepEqual(result, { stored: [false, false], conflicts: 0, frozen: [] })
    assert.deepEqual(await readAll(store), before)
  }),

  check('a known id with other bytes is a conflict, and the first content stays', async (store) => {
    await store.append('p', batchOf([event('a', { n: 1 }), event('b'), event('c')]))
    const result = await store.append('p', batchOf([event('a', { n: 2 }), event('b'), `${event('c')} `]))
    assert.deepEqual(
      result,
      { stored: [false, false, false], conflicts: 1, frozen: [] },
      'space around an event is not part of it',
    )
    assert.deepEqual(await store.append('p', batchOf([event('b').replace(',', ', ')])), {
      stored: [false],
      conflicts: 1,
      frozen: [],
    })
    assert.deepEqual(await textsOf(store), [event('a', { n: 1 }), event('b'), event('c')])
    assert.equal(textOf(await store.find('p', 'a')), event('a', { n: 1 }))
  }),

  check('a partly known batch stores the new events only, in their order', async (store) => {
    await store.append('p', batchOf([event('b'), event('d')]))
    const batch = batchOf(['a', 'b', 'c', 'd', 'e'].map((id) => event(id, { second: true })))
    assert.deepEqual(await store.append('p', batch), {
      stored: [true, false, true, false, true],
      conflicts: 2,
      frozen: [],
    })
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
      assert.deepEqual(result, { stored: oddEvents.map((_, at) => at % 2 === 1), conflicts: 0, frozen: [] })
      assert.deepEqual(await textsOf(store, `p${i}`), [...known, ...fresh], envelope('…'))
    }
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
    assert.deepEqual(await store.append('p', { ...batch, body: part }), {
      stored: [false, false],
      conflicts: 0,
      frozen: [],
    })
    await store.append('q', { ...batch, body: part })
    assert.deepEqual(await textsOf(store, 'q'), texts)
  }),

  check('a batch of 100 events in 262,144 bytes is stored', async (store) => {
    const [fillBytes, bodyBytes] = [2_560, 262_144]
    const texts = range(99).map((i) => event(`e-${i}`, { fill: 'x'.repeat(fillBytes) }))
    const { body } = batchOf([...texts, event('last', { fill: '' })])
    const batch = batchOf([...texts, event('last', { fill: 'x'.repeat(bodyBytes - body.length) })])
    assert.equal(batch.body.length, bodyBytes)
    assert.deepEqual(await store.append('p', batch), { stored: range(100).map(() => true), conflicts: 0, frozen: [] })
    assert.deepEqual(await textsOf(store), textsIn(batch))
    assert.deepEqual(await store.append('p', batch), { stored: range(100).map(() => false), conflicts: 0, frozen: [] })
  }),

  check('one large event is stored', async (store) => {
    const batch = batchOf([event('a', { fill: 'é'.repeat(131_000) })])
    await store.append('p', batch)
    assert.deepEqual(await textsOf(store), textsIn(batch))
  }),

  check('known and find agree with what was appended', async (store) => {
    assert.deepEqual(await store.known('p', ['a']), [false], 'an empty project knows nothing')
    assert.equal(await store.find('p', 'a'), undefined)
    await store.append('p', batchOf([event('a'), event('b')], { receivedAt: 123_456 }))
    assert.deepEqual(await store.known('p', ['x', 'b', 'a', 'b']), [false, true, true, true])
    assert.deepEqual(await store.known('p', []), [])
    assert.equal(await store.find('p', 'x'), undefined)
    const found = await store.find('p', 'b')
    assert.equal(textOf(found), event('b'))
    assert.equal(found?.receivedAt, 123_456)
  }),

  check('returned events do not change with later operations', async (store) => {
    await store.append('p', batchOf([event('a')]))
    const found = await store.find('p', 'a')
    const [read] = await readAll(store)
    await store.append('p', batchOf(range(50).map((i) => event(`${i}`, { fill: '#'.repeat(500) }))))
    for (const i of range(50)) await store.find('p', `${i}`)
    assert.equal(textOf(found), event('a'))
    assert.equal(textOf(read), event('a'))
  }),

  check('totals count events, and batches of which something was stored', async (store) => {
    const nothing = { events: 0, batches: 0, bytes: 0 }
    assert.deepEqual(await store.totals('p'), nothing)
    await store.append('p', batchOf([event('a'), event('b')]))
    const { bytes, ...first } = await store.totals('p')
    assert.deepEqual(first, { events: 2, batches: 1, firstAt: 1_000, lastAt: 1_000 })
    assert.ok(bytes > 0)
    await store.append('p', batchOf([event('a', { other: true }), event('b')]))
    assert.deepEqual(await store.totals('p'), { ...first, bytes }, 'duplicates do not count')
    await store.append('p', batchOf([event('a'), event('c')]))
    const second = await store.totals('p')
    assert.deepEqual([second.events, second.batches], [3, 2])
    assert.ok(second.bytes > bytes)
    assert.deepEqual(await store.totals('q'), nothing)
  }),

  check('totals say when the first and the last batch of the project were received', async (store) => {
    const times = async () => {
      const { firstAt, lastAt } = await store.totals('p')
      return [firstAt, lastAt]
    }
    await store.append('q', batchOf([event('a')], { receivedAt: 1 }))
    assert.deepEqual(await times(), [undefined, undefined])
    await store.append('p', batchOf([event('a')], { receivedAt: 4_999 }))
    assert.deepEqual(await times(), [4_999, 4_999])
    await store.append('q', batchOf([event('b')], { receivedAt: 5_500 }))
    await store.append('p', batchOf([event('a')], { receivedAt: 9_000 }))
    assert.deepEqual(await times(), [4_999, 4_999], 'duplicates do not count')
    await store.append('p', batchOf([event('b')], { receivedAt: 6_000 }))
    await store.append('q', batchOf([event('c')], { receivedAt: 7_000 }))
    assert.deepEqual(await times(), [4_999, 6_000])
  }),

  check('recent events are those of batches received since a time', async (store) => {
    const count = () => store.countSince('p', 5_000, 100)
    await store.append('q', batchOf([event('a')], { receivedAt: 4_000 }))
    assert.deepEqual(await count(), { events: 0, since: 5_000 })
    await store.append('p', batchOf([event('a'), event('b')], { receivedAt: 4_999 }))
    assert.deepEqual(await count(), { events: 0, since: 5_000 })
    await store.append('p', batchOf([event('c'), event('d'), event('b')], { receivedAt: 5_000 }))
    await store.append('p', batchOf([event('e')], { receivedAt: 6_000 }))
    await store.append('p', batchOf([event('a')], { receivedAt: 6_000 }))
    await store.append('q', batchOf([event('b')], { receivedAt: 7_000 }))
    assert.deepEqual(await count(), { events: 3, since: 5_000 })
  }),

  check('recent events are counted over a limited number of batches', async (store) => {
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
      assert.deepEqual(await store.countSince('p', 500, batchesMax), expected)
    }
    assert.deepEqual(await store.countSince('p', 1_003, 1_000), { events: 134, since: 1_003 })
  }),
]
