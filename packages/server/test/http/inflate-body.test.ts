import { gzipSync } from 'node:zlib'
import { batchBytesMax } from '@ingest/core'
import { batchTooLarge } from '@ingest/core/internal'
import t from 'tap'
import { inflateBody, isGzip } from '../../src/http/body.ts'

const limit = { bytesMax: batchBytesMax, tooLarge: batchTooLarge }

t.test('what was deflated comes back', async (t) => {
  t.equal(Buffer.from(await inflateBody(gzipSync('{"events":[]}'), limit)).toString(), '{"events":[]}')
})

t.test('exactly 262,144 bytes come back, one more is too large', async (t) => {
  t.equal((await inflateBody(gzipSync(Buffer.alloc(batchBytesMax)), limit)).length, batchBytesMax)
  await t.rejects(inflateBody(gzipSync(Buffer.alloc(batchBytesMax + 1)), limit), { code: 'batch-too-large' })
})

t.test('a bomb is too large', async (t) => {
  await t.rejects(inflateBody(gzipSync(Buffer.alloc(100_000_000)), limit), { code: 'batch-too-large' })
})

t.test('what is no gzip, or not all of it, is malformed', async (t) => {
  const whole = gzipSync('{"events":[]}')
  const broken = Buffer.from(whole)
  broken[broken.length - 6] = 0xff ^ (broken[broken.length - 6] ?? 0)
  for (const body of [Buffer.from('{"events":[]}'), Buffer.alloc(0), whole.subarray(0, -1), broken]) {
    await t.rejects(inflateBody(body, limit), { code: 'malformed-body' })
  }
})

t.test('gzip is known by its first two bytes', async (t) => {
  t.ok(isGzip(gzipSync('')))
  for (const text of ['', '{', '{"events":[]}']) t.notOk(isGzip(Buffer.from(text)))
})
