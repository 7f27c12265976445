import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorCodes, IngestError } from '@ingest/core'
import t from 'tap'
import { statusByCode } from '../../src/http/response.ts'

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

t.test('the tables of codes in the docs have every code, with its status and whether a retry may help', async (t) => {
  // tests run in a compiled copy of the repository, without docs
  const root = execFileSync('git', ['rev-parse', '--show-toplevel'], { encoding: 'utf8' }).trim()
  const rows = readFileSync(join(root, 'docs/http-api.md'), 'utf8').matchAll(
    /^\| `([a-z-]+)` +\| (\d{3}) +\| (yes|no) /gm,
  )
  const documented = Array.from(rows, ([, code = '', status, retryable]) => [code, Number(status), retryable === 'yes'])
  const expected = errorCodes.map((code) => [code, statusByCode[code], new IngestError(code, '').retryable])
  t.strictSame(documented.sort(), expected.sort())
})
