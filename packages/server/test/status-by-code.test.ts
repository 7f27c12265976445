import { errorCodes, IngestError } from '@ingest/core'
import t from 'tap'
import { statusByCode } from '../src/status-by-code.ts'

t.test('every code has a status, and there are no others', async (t) => {
  t.strictSame(Object.keys(statusByCode).sort(), [...errorCodes].sort())
})

t.test('a sender drops a batch on 400 and 413 alone, and those are never for what may succeed later', async (t) => {
  for (const code of errorCodes) {
    const status = statusByCode[code]
    if (status === 400 || status === 413) t.equal(new IngestError(code, '').retryable, false, code)
    if (status === 503 || status === 429) t.equal(new IngestError(code, '').retryable, true, code)
  }
})
