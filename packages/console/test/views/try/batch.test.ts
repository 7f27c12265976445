import { createIngest, openMemoryStore } from '@ingest/core'
import t from 'tap'
import { eventIdsOf, findBatchProblem, sampleBatch } from '../../../page/views/try/batch.ts'

t.test('the sample is accepted, and freezes no build', async (t) => {
  const ingest = createIngest({ store: openMemoryStore() })
  t.teardown(() => ingest.close())
  const sample = sampleBatch('demo')
  t.equal(findBatchProblem(sample), undefined)
  t.match(await ingest.project('demo').submitBatch(Buffer.from(sample)), { accepted: 2, duplicates: 0, rejected: [] })
  t.match(await ingest.project('demo').submitBatch(Buffer.from(sampleBatch('demo'))), { accepted: 2 }, 'with new ids')
  t.match(await ingest.project('demo').getStats(), { builds: 0 })
})

t.test('a text that is no batch is found', async (t) => {
  t.match(findBatchProblem('{"events":[}'), /^Not JSON: /)
  t.match(findBatchProblem(''), /^Not JSON: /)
  for (const text of ['[]', 'null', '1', '{"events":{}}']) t.match(findBatchProblem(text), /array "events"/, text)
})

t.test('the ids of a batch', async (t) => {
  t.strictSame(eventIdsOf('{"events":[{"eventId":"a"},{"eventId":1},null,3]}'), ['a', null, null, null])
})
