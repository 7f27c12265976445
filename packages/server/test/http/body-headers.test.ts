import { IngestError } from '@ingest/core'
import t from 'tap'
import { checkBodyHeaders } from '../../src/http/body-headers.ts'
import { parseRawHeaders } from '../../src/http/request.ts'

function kindOf(bytesMax: number) {
  const tooLarge = (actual: number) => new IngestError('body-too-large', '', { limit: bytesMax, actual })
  return { limit: { bytesMax, tooLarge } }
}
const kinds = new Map([
  ['application/json', kindOf(100)],
  ['application/octet-stream', kindOf(10)],
])
const check = (...headers: string[]) => checkBodyHeaders(parseRawHeaders(headers), kinds)

t.test('the media type decides what the body is, and how large it may be', async (t) => {
  const json = check('Content-Type', 'application/json', 'Content-Length', '100')
  t.equal(json.kind.limit.bytesMax, 100)
  t.notOk(json.gzip)
  const bytes = check(
    'Content-Type',
    'Application/Octet-Stream; a=b',
    'Content-Length',
    '10',
    'Content-Encoding',
    'gzip',
  )
  t.equal(bytes.kind.limit.bytesMax, 10)
  t.ok(bytes.gzip)
  t.throws(() => check('Content-Type', 'application/json', 'Content-Length', '101'), {
    code: 'body-too-large',
    limit: 100,
    actual: 101,
  })
  t.throws(() => check('Content-Type', 'application/octet-stream', 'Content-Length', '11'), {
    code: 'body-too-large',
    limit: 10,
    actual: 11,
  })
})

t.test('of several faults the first in the order of the contract is named', async (t) => {
  const wrong = ['Content-Type', 'a/b', 'Content-Encoding', 'br', 'Content-Length', '1e3']
  t.throws(() => check(...wrong, 'Host', 'a', 'Host', 'b'), { code: 'repeated-header' })
  t.throws(() => check(...wrong), {
    code: 'unsupported-media-type',
    message: /application\/json or application\/octet-stream/,
  })
  t.throws(() => check('Content-Type', 'application/json', ...wrong.slice(2)), { code: 'unsupported-coding' })
  t.throws(() => check('Content-Type', 'application/json', ...wrong.slice(4)), { code: 'malformed-request' })
})

t.test('a coding of the transfer that nobody takes off is refused', async (t) => {
  t.throws(() => check('Content-Type', 'application/json', 'Transfer-Encoding', 'gzip, chunked'), {
    code: 'unsupported-coding',
  })
  check('Content-Type', 'application/json', 'Transfer-Encoding', 'Chunked')
})
