import assert from 'node:assert/strict'
import { batchOf, event, idsOf, projectWith, publishEmpty } from './sample-events.ts'
import { check, rejectionOf, type StoreCheck } from './store-check.ts'

export const projectChecks: readonly StoreCheck[] = [
  check('projects with an event, a map or a key are listed in the order of their bytes', async (store) => {
    assert.deepEqual(await store.projects(), [])
    await store.known('q', ['a'])
    await store.project('q')
    assert.deepEqual(await store.projects(), [], 'reading stores nothing')
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

  check(
    'an update rejects with the error of its decision, writes nothing, and affects no other operation',
    async (store) => {
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
      assert.equal(await rejectionOf(store.updateProject('p', refuse)), thrown)
      assert.deepEqual(await store.project('p'), projectWith([]))
    },
  ),
]
