import t from 'tap'
import { accountsFor } from '../../src/import/fill-batch.ts'

const rejection = (index: number) => ({ index, eventId: null, issues: [] })

t.test('an answer is one to a batch when it adds up, and names places of the batch, each once', async (t) => {
  t.ok(accountsFor({ accepted: 2, duplicates: 1, rejected: [rejection(0), rejection(4)] }, 5))
  t.ok(accountsFor({ accepted: 0, duplicates: 0, rejected: [] }, 0))
  t.notOk(accountsFor({ accepted: 2, duplicates: 1, rejected: [] }, 5))
  t.notOk(accountsFor({ accepted: 2, duplicates: 1, rejected: [rejection(1), rejection(1)] }, 5))
  t.notOk(accountsFor({ accepted: 2, duplicates: 1, rejected: [rejection(1), rejection(1)] }, 4))
  for (const index of [-1, 5, 0.5]) {
    t.notOk(accountsFor({ accepted: 4, duplicates: 0, rejected: [rejection(index)] }, 5))
  }
  t.notOk(accountsFor({ accepted: 4, duplicates: 0, rejected: [{ ...rejection(0), issues: 'none' as never }] }, 5))
})
