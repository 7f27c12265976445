import t from 'tap'
import { createBatchPlan } from '../src/batch-plan.js'

t.test('without anything else, every batch is new', async (t) => {
  const plan = createBatchPlan({ count: 100 })
  t.strictSame(plan.next(), { number: 0, repeats: undefined, accepted: 100 })
  t.strictSame(plan.next(), { number: 1, repeats: undefined, accepted: 100 })
})

t.test('only what was answered is repeated, and of that only what was new', async (t) => {
  const plan = createBatchPlan({ count: 100, repeatShare: 0.5 })
  const first = plan.next()
  t.equal(first.accepted, 100)
  t.equal(plan.next().repeats, undefined, 'nothing is answered yet')
  plan.answered(first)
  t.strictSame(plan.next(), { number: 2, repeats: { batch: 0, at: 50, count: 50 }, accepted: 50 })
  t.throws(() => createBatchPlan({ count: 100, repeatShare: 0.6 }))
})

t.test('batches that are sent again come round and round, and nothing of them is new', async (t) => {
  const plan = createBatchPlan({ count: 100, resend: 2 })
  t.strictSame(
    [plan.next(), plan.next(), plan.next()],
    [0, 1, 0].map((number) => ({ number, repeats: undefined, accepted: 0 })),
  )
})
