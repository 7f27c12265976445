import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { concurrencyLimits, createConcurrencyLimit, shareMaxOf } from '../../src/limits/concurrency.ts'
import { createTurnBudget } from '../../src/limits/turn-budget.ts'

const overloaded = { code: 'overloaded', retryAfterSeconds: 1 }

t.test('one project takes a part of the slots and leaves the rest to others', async (t) => {
  const limit = createConcurrencyLimit(concurrencyLimits.batches)
  const slots = Array.from({ length: shareMaxOf(concurrencyLimits.batches) }, () => limit.take('busy'))
  t.throws(() => limit.take('busy'), overloaded)
  limit.take('other')
  slots.pop()?.release()
  limit.take('busy')
  t.throws(() => limit.take('busy'), overloaded)
})

t.test('all projects together take every slot and no more, and released slots are taken again', async (t) => {
  const limit = createConcurrencyLimit(concurrencyLimits.batches)
  const slots = Array.from({ length: concurrencyLimits.batches.max }, (_, i) => limit.take(`p-${i}`))
  t.throws(() => limit.take('late'), overloaded)
  for (const each of slots) each.release()
  for (let i = 0; i < concurrencyLimits.batches.max; i++) limit.take(`q-${i}`)
  t.throws(() => limit.take('late'), overloaded)
})

t.test('a slot is released once, however often its release is called', async (t) => {
  const limit = createConcurrencyLimit({ what: 'uploads', max: 8 })
  const slot = limit.take('p')
  limit.take('p')
  slot.release()
  slot.release()
  limit.take('p')
  t.throws(() => limit.take('p'), { code: 'overloaded', message: /uploads/ })
})

t.test('bytes are bounded by project and in all, until they are released', async (t) => {
  const limit = createConcurrencyLimit({ what: 'unfinished uploads', max: 240 })
  const [first, second] = [limit.take('p', 0), limit.take('p', 0)]
  first.add(40)
  second.add(20)
  t.throws(() => second.add(1), overloaded, 'of the project')
  const others = ['q', 'r', 's'].map((projectId) => limit.take(projectId, 60))
  const last = limit.take('t', 0)
  t.throws(() => last.add(1), overloaded, 'of all')
  first.release()
  first.release()
  last.add(40)
  t.throws(() => second.add(1), overloaded)
  others[0]?.release()
  second.add(40)
  t.throws(() => second.add(1), overloaded)
})

t.test('a turn of the event loop takes its budget, and the projects that wait take in turn', async (t) => {
  const take = createTurnBudget({ what: 'requests', max: 4, waitingMax: 40 })
  t.equal(take('first', 3), undefined)
  t.equal(take('first', 1), undefined)
  const taken: string[] = []
  const waiting = [...'aaaaaaab'].map((projectId) => take(projectId, 1)?.then(() => taken.push(projectId)))
  t.notOk(waiting.includes(undefined), 'all wait')
  await Promise.resolve()
  t.same(taken, [], 'nothing in this turn')
  await nextTurn()
  t.same([...taken].sort(), ['a', 'a', 'a', 'b'])
  await Promise.all(waiting)
  t.equal(taken.length, 8)
  await nextTurn()
  await nextTurn()
  t.equal(take('a', 1), undefined, 'a new turn')
})

t.test('a cost above the budget of a turn is admitted', async (t) => {
  const take = createTurnBudget({ what: 'requests', max: 4, waitingMax: 40 })
  t.equal(take('a', 100), undefined)
  await take('a', 100)
  await take('b', 1)
})

t.test('the requests that wait for a turn are bounded, and a quarter of them from one source', async (t) => {
  const take = createTurnBudget({ what: 'requests', max: 1, waitingMax: 8 })
  t.equal(take('a', 1), undefined)
  const waiting = [...'aabbccdd'].map((source) => take(source, 1))
  t.throws(() => take('e', 1), overloaded)
  await nextTurn()
  t.throws(() => take('b', 1), overloaded, 'of one source')
  const last = take('e', 1)
  await Promise.all([...waiting, last])
})
