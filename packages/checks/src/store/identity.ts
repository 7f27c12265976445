import assert from 'node:assert/strict'
import { appended, batchOf, event, idOf, lookAlikes, textOf, textsOf } from './sample-events.ts'
import { check, range, type StoreCheck } from './store-check.ts'

export const identityChecks: readonly StoreCheck[] = [
  check('an id is what its JSON means, not how it is written', async (store) => {
    const spellings = ['{"eventId":"A/é"}', '{"eventId":"\\u0041\\/\\u00E9"}', '{"eventId":"x","\\u0065ventId":"A/é"}']
    for (const [i, text] of spellings.entries()) {
      assert.deepEqual(await store.append('p', batchOf([text])), appended([i === 0], i === 0 ? 0 : 1))
    }
    assert.deepEqual(await textsOf(store), spellings.slice(0, 1))
    const uuids = [
      '{"eventId":"0190f3a2-7b1c-7d3e-8f40-00ff5c1e7a2b"}',
      '{"eventId":"\\u0030190f3a2-7b1c-7d3e-8f40-00ff5c1e7a2b"}',
    ]
    for (const [first, second] of [uuids, uuids.map((text) => text.replace('2b"', '2c"')).reverse()]) {
      assert.deepEqual((await store.append('p', batchOf([first as string]))).stored, [true])
      assert.deepEqual((await store.append('p', batchOf([second as string]))).stored, [false])
      const { eventId } = JSON.parse(second as string)
      assert.deepEqual([await store.known('p', [eventId]), textOf(await store.find('p', eventId))], [[true], first])
    }
  }),

  check('ids are compared byte for byte, one after another and in one batch', async (store) => {
    const batch = batchOf(lookAlikes.map((id, i) => event(id, { i })))
    const { stored } = await store.append('p', batch)
    const mistaken = lookAlikes.filter((_, i) => !stored[i])
    assert.deepEqual(mistaken, [], 'taken for another')
    for (const [i, id] of lookAlikes.entries()) assert.equal(textOf(await store.find('p', id)), event(id, { i }))
    assert.deepEqual(await store.append('p', batch), appended(lookAlikes.map(() => false)))
    const ids = [...lookAlikes].reverse()
    for (const [i, id] of ids.entries()) {
      const expected = ids.map((_, at) => at < i)
      assert.deepEqual(await store.known('q', ids), expected, `before ${JSON.stringify(id)}`)
      assert.deepEqual(await store.append('q', batchOf([event(id)])), appended([true]))
    }
  }),

  check(
    'the same id in two projects is two events, and a project and an id do not run into each other',
    async (store) => {
      const pairs = ['a bc', 'ab bc', 'ab c', 'abc a', 'A bc', 'a.b c', 'a-b c', 'a .bc'].map(
        (pair) => pair.split(' ') as [projectId: string, id: string],
      )
      for (const [projectId, id] of pairs) {
        assert.deepEqual(await store.known(projectId, [id]), [false])
        assert.deepEqual(await store.append(projectId, batchOf([event(id, { projectId })])), appended([true]))
      }
      for (const [projectId, id] of pairs) {
        assert.equal(textOf(await store.find(projectId, id)), event(id, { projectId }))
      }
      assert.deepEqual((await textsOf(store, 'a')).map(idOf), ['bc', '.bc'])
      assert.deepEqual(await store.known('abc', ['bc', 'c', 'a']), [false, false, true])
    },
  ),

  check('thousands of ids are distinct', async (store) => {
    const ids = range(3_000).map((i) => `event-${i}`)
    const batches = range(30).map((b) => batchOf(ids.slice(b * 100, b * 100 + 100).map((id) => event(id))))
    const append = () => Promise.all(batches.map((batch) => store.append('p', batch)))
    for (const { stored } of await append()) assert.ok(stored.every(Boolean))
    assert.ok((await store.known('p', ids)).every(Boolean))
    const others = ids.map((id) => `${id}!`)
    assert.ok(!(await store.known('p', others)).some(Boolean))
    for (const { stored } of await append()) assert.ok(!stored.some(Boolean))
  }),
]
