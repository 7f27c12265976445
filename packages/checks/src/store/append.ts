import assert from 'node:assert/strict'
import {
  appended,
  batchFrom,
  batchOf,
  envelopes,
  event,
  idOf,
  idOfStored,
  idsOf,
  oddEvents,
  readAll,
  textOf,
  textsIn,
  textsOf,
} from './sample-events.ts'
import { check, range, type StoreCheck } from './store-check.ts'

export const appendChecks: readonly StoreCheck[] = [
  check('an append stores new events, in their order, and says so for each', async (store) => {
    assert.deepEqual(await store.append('p', batchOf([])), appended([]))
    assert.deepEqual(await store.append('p', batchOf([event('b'), event('d')])), appended([true, true]))
    const batch = batchOf(['a', 'b', 'c', 'd', 'e'].map((id) => event(id, { second: true })))
    assert.deepEqual(await store.append('p', batch), appended([true, false, true, false, true], 2))
    assert.deepEqual(await idsOf(store), ['b', 'd', 'a', 'c', 'e'])
    assert.equal(textOf(await store.find('p', 'b')), event('b'))
    assert.equal(textOf(await store.find('p', 'e')), event('e', { second: true }))
  }),

  check('a second append stores nothing: a known id with other bytes is a conflict', async (store) => {
    const batch = batchOf([event('a', { n: 1 }), event('b'), event('c')])
    await store.append('p', batch)
    const before = await readAll(store)
    const again = await store.append('p', { ...batch, receivedAt: batch.receivedAt + 1 })
    assert.deepEqual(again, appended([false, false, false]))
    const spaced = await store.append('p', batchOf([event('a', { n: 2 }), event('b'), `${event('c')} `]))
    assert.deepEqual(spaced, appended([false, false, false], 1), 'space around an event is not part of it')
    assert.deepEqual(await store.append('p', batchOf([event('b').replace(',', ', ')])), appended([false], 1))
    assert.deepEqual(await readAll(store), before)
    assert.equal(textOf(await store.find('p', 'a')), event('a', { n: 1 }))
  }),

  check('events come back byte for byte from any envelope', async (store) => {
    for (const [i, envelope] of envelopes.entries()) {
      await store.append(`p${i}`, batchFrom(envelope(`[\n ${oddEvents.join(' ,\t')}\r\n]`)))
      assert.deepEqual(await textsOf(store, `p${i}`), oddEvents, envelope('…'))
    }
    for (const text of oddEvents) assert.equal(textOf(await store.find('p0', idOf(text))), text)
  }),

  check('events come back byte for byte when others of their body were rejected', async (store) => {
    const rejected = ['1', '"}"', 'null', '[{"eventId":"inner"}]', '{}', '-1.5e3', '[]']
    const elements = oddEvents.flatMap((text, i) => [rejected[i % rejected.length] as string, text])
    const indexes = oddEvents.map((_, i) => 2 * i + 1)
    for (const [i, envelope] of envelopes.entries()) {
      const batch = batchFrom(envelope(`[${elements.join(' , ')}]`), { indexes })
      assert.deepEqual(await store.append(`p${i}`, batch), appended(oddEvents.map(() => true)))
      assert.deepEqual(await textsOf(store, `p${i}`), oddEvents, envelope('…'))
    }
  }),

  check('events come back byte for byte when others of their batch were known', async (store) => {
    const known = oddEvents.filter((_, i) => i % 2 === 0)
    const fresh = oddEvents.filter((_, i) => i % 2 === 1)
    for (const [i, envelope] of envelopes.entries()) {
      await store.append(`p${i}`, batchFrom(envelope(`[${known}]`)))
      const result = await store.append(`p${i}`, batchFrom(envelope(`[${oddEvents.join(' ,\n')}]`)))
      assert.deepEqual(result, appended(oddEvents.map((_, at) => at % 2 === 1)))
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
    assert.deepEqual(await store.append('p', { ...batch, body: part }), appended([false, false]))
    await store.append('q', { ...batch, body: part })
    assert.deepEqual(await textsOf(store, 'q'), texts)
  }),

  check('a batch of 100 events in 262,144 bytes is stored, and one large event', async (store) => {
    const [fillBytes, bodyBytes] = [2_560, 262_144]
    const texts = range(99).map((i) => event(`e-${i}`, { fill: 'x'.repeat(fillBytes) }))
    const { body } = batchOf([...texts, event('last', { fill: '' })])
    const batch = batchOf([...texts, event('last', { fill: 'x'.repeat(bodyBytes - body.length) })])
    assert.equal(batch.body.length, bodyBytes)
    assert.deepEqual(await store.append('p', batch), appended(range(100).map(() => true)))
    assert.deepEqual(await textsOf(store), textsIn(batch))
    assert.deepEqual(await store.append('p', batch), appended(range(100).map(() => false)))
    const large = batchOf([event('a', { fill: 'é'.repeat(131_000) })])
    await store.append('q', large)
    assert.deepEqual(await textsOf(store, 'q'), textsIn(large))
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
    await store.erase('p', ['a'])
    for (const each of [found, read]) assert.equal(textOf(each), event('a'))
  }),

  check('totals count stored events, and batches with stored events, and have their times', async (store) => {
    const { lastCursor: start, ...nothing } = await store.totals('p')
    assert.deepEqual(nothing, { events: 0, batches: 0, bytes: 0 })
    await store.append('q', batchOf([event('a')], { receivedAt: 1 }))
    assert.deepEqual(await store.totals('p'), { ...nothing, lastCursor: start })
    await store.append('p', batchOf([event('a'), event('b')], { receivedAt: 4_999 }))
    const { bytes, ...first } = await store.totals('p')
    const { lastCursor: _, ...firstCounts } = first
    assert.deepEqual(firstCounts, { events: 2, batches: 1, firstAt: 4_999, lastAt: 4_999 })
    assert.ok(bytes > 0)
    await store.append('p', batchOf([event('a', { other: true }), event('b')], { receivedAt: 9_000 }))
    assert.deepEqual(await store.totals('p'), { ...first, bytes }, 'duplicates do not count')
    await store.append('p', batchOf([event('a'), event('c')], { receivedAt: 6_000 }))
    await store.append('q', batchOf([event('c')], { receivedAt: 7_000 }))
    const { bytes: more, lastCursor: __, ...second } = await store.totals('p')
    assert.deepEqual(second, { events: 3, batches: 2, firstAt: 4_999, lastAt: 6_000 })
    assert.ok(more > bytes)
  }),

  check(
    'the last cursor in the totals is that of the last event, from which a read finds later ones',
    async (store) => {
      const { lastCursor: start } = await store.totals('p')
      await store.append('q', batchOf([event('a'), event('b')]))
      const batches = [
        ['a', 'b'],
        ['a', 'c', 'b'],
        ['b', 'a', 'd'],
        ['e', 'a', 'b', 'c'],
        ['a', 'b'],
      ]
      for (const ids of batches) {
        const before = await store.totals('p')
        await store.append('p', batchOf(ids.map((id) => event(id))))
        const events = await readAll(store)
        assert.equal((await store.totals('p')).lastCursor, events.at(-1)?.cursor)
        const later = (await readAll(store, 'p', { after: before.lastCursor })).map(idOfStored)
        assert.deepEqual(later, events.slice(before.events).map(idOfStored))
      }
      assert.deepEqual((await readAll(store, 'p', { after: start })).map(idOfStored), ['a', 'b', 'c', 'd', 'e'])
    },
  ),
]
