import assert from 'node:assert/strict'
import { appendAll, batchOf, event, idOf, lookAlikes, textOf, textsOf } from './sample-events.ts'
import { check, range, type StoreCheck } from './store-check.ts'

export const identityChecks: readonly StoreCheck[] = [
  check('an id is what its JSON means, not how it is written', async (store) => {
    const spellings = ['{"eventId":"A/é"}', '{"eventId":"\\u0041\\/\\u00E9"}', '{"eventId":"x","\\u0065ventId":"A/é"}']
    for (const [i, text] of spellings.entries()) {
      assert.deepEqual(await store.append('p', batchOf([text])), {
        stored: [i === 0],
        conflicts: i === 0 ? 0 : 1,
        frozen: [],
      })
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

  check('ids are compared byte for byte', async (store) => {
    const batch = batchOf(lookAlikes.map((id, i) => event(id, { i })))
    const { stored } = await store.append('p', batch)
    assert.deepEqual(
      lookAlikes.filter((_, i) => !stored[i]),
      [],
      'taken for another',
    )
    for (const [i, id] of lookAlikes.entries()) assert.equal(textOf(await store.find('p', id)), event(id, { i }))
    assert.deepEqual(await store.append('p', batch), { stored: lookAlikes.map(() => false), conflicts: 0, frozen: [] })
  }),

  check('similar ids are not known by one another', async (store) => {
    const ids = [...lookAlikes].reverse()
    for (const [i, id] of ids.entries()) {
      const known = await store.known('p', ids)
      assert.deepEqual(
        known,
        ids.map((_, at) => at < i),
        `before ${JSON.stringify(id)}`,
      )
      assert.deepEqual(await store.append('p', batchOf([event(id)])), { stored: [true], conflicts: 0, frozen: [] })
    }
  }),

  check('the same id in two projects is two events', async (store) => {
    await store.append('p', batchOf([event('a', { projectId: 'p' })]))
    assert.deepEqual(await store.known('q', ['a']), [false])
    const result = await store.append('q', batchOf([event('a', { projectId: 'q' })]))
    assert.deepEqual(result, { stored: [true], conflicts: 0, frozen: [] })
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
      assert.deepEqual(await store.append(projectId, batchOf([event(id)])), {
        stored: [true],
        conflicts: 0,
        frozen: [],
      })
    }
    for (const [projectId, id] of pairs) assert.equal(idOf(textOf(await store.find(projectId, id))), id)
    assert.deepEqual(await store.known('ab', ['bc', 'c']), [false, true])
  }),

  check('thousands of ids are distinct', async (store) => {
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
]
