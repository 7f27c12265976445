import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { createTurnBudget } from '../../src/limits/turn-budget.ts'

t.test('a turn of the event loop takes its budget, and the projects that wait take in turn', async (t) => {
  const take = createTurnBudget(4)
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
  const take = createTurnBudget(4)
  t.equal(take('a', 100), undefined)
  await take('a', 100)
  await take('b', 1)
})
