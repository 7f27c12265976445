import { errorCodes, eventLine } from '@ingest/core'
import fc from 'fast-check'
import t from 'tap'
import { errorFromResponse, parseRetryAfter } from '../../src/http/error-from-response.ts'
import { parseEventLines } from '../../src/http/event-lines.ts'

const type = { 'content-type': 'application/problem+json' }
const now = 0

t.test('the error has no control character of the problem document', async (t) => {
  const forged = 'no\r\nERROR forged\u001b[31m\u009b31m\u2028x'
  const shown = 'no  ERROR forged [31m 31m x'
  const body = JSON.stringify({ detail: forged, issues: [{ code: forged, path: forged, message: forged }] })
  const { message, issues } = errorFromResponse({ status: 503, headers: type, body }, now)
  t.equal(message, shown)
  t.strictSame(issues, [{ code: shown, path: shown, message: shown }])
})

t.test('the error has the code and all details of the problem document', async (t) => {
  const issues = [{ code: 'required', path: '/buildId', message: 'Required.' }]
  for (const code of errorCodes) {
    const body = JSON.stringify({ code, detail: 'What to do.', issues, limit: 1, actual: 2, retryAfter: 3 })
    t.match(errorFromResponse({ status: 400, headers: type, body }, now), {
      name: 'IngestError',
      code,
      status: 400,
      message: 'What to do.',
      issues,
      limit: 1,
      actual: 2,
      retryAfterSeconds: 3,
    })
  }
})

t.test('the Retry-After header takes precedence over the body, which may ask for an hour at most', async (t) => {
  const rows: [header: string | undefined, retryAfter: number, seconds: number][] = [
    ['9', 3, 9],
    [undefined, 3600, 3600],
    [undefined, 999_999_999, 3600],
  ]
  for (const [header, retryAfter, seconds] of rows) {
    const body = JSON.stringify({ code: 'rate-limited', retryAfter })
    const error = errorFromResponse({ status: 429, headers: { ...type, 'retry-after': header }, body }, now)
    t.equal(error.retryAfterSeconds, seconds)
  }
})

t.test('an invalid problem document gets the code of the status', async (t) => {
  for (const body of ['', '{', 'null', '[]', '7', '{"code":7,"detail":{},"issues":"a","limit":-1,"actual":"b"}']) {
    const error = errorFromResponse({ status: 503, headers: type, body }, now)
    t.match(error, { code: 'overloaded', issues: undefined, limit: undefined, actual: undefined })
  }
  const body = JSON.stringify({ issues: [null, 7, {}, { code: 'required', path: '', message: 'Required.' }] })
  t.equal(errorFromResponse({ status: 400, headers: type, body }, now).issues?.length, 1)
  const page = errorFromResponse({ status: 502, headers: { 'content-type': 'text/html' }, body: '<html>' }, now)
  t.match(page.message, /502/)
  t.notMatch(page.message, /html/)
})

t.test('the error of a redirect names its target', async (t) => {
  const error = errorFromResponse({ status: 301, headers: { location: 'https://elsewhere.example/' }, body: '' }, now)
  t.match(error, {
    code: 'unexpected-response',
    status: 301,
    message: /redirect, 301 to https:\/\/elsewhere\.example\//,
  })
})

t.test('Retry-After is whole seconds or an HTTP date, and an hour at most', async (t) => {
  const noon = Date.parse('2026-11-20T17:51:00.250Z')
  const rows: [string | undefined, number | undefined][] = [
    ['0', 0],
    ['1', 1],
    ['120', 120],
    ['Fri, 20 Nov 2026 17:51:10 GMT', 10],
    ['Fri, 20 Nov 2026 17:50:00 GMT', 0],
    [undefined, undefined],
    ['', undefined],
    ['-1', undefined],
    ['1.5', undefined],
    ['soon', undefined],
    ['2026-11-20', undefined],
    ['3600', 3600],
    ['3601', 3600],
    ['99999999999', 3600],
    ['Fri, 20 Nov 2026 18:51:00 GMT', 3600],
    ['Fri, 20 Nov 2026 18:51:01 GMT', 3600],
    ['Tue, 20 Nov 2057 17:51:00 GMT', 3600],
    ['Fri, 99 Nov 2026 17:51:10 GMT', undefined],
  ]
  for (const [value, seconds] of rows) t.equal(parseRetryAfter(value, noon), seconds, String(value))
})

async function* body(...parts: (string | Uint8Array)[]) {
  for (const part of parts) yield Buffer.from(part)
}

async function parseLines(...parts: (string | Uint8Array)[]) {
  const events = []
  for await (const { scanned } of parseEventLines(body(...parts))) {
    for (const line of scanned) {
      const { cursor, ...rest } = line
      events.push('receivedAt' in rest ? { cursor, receivedAt: rest.receivedAt, text: String(line.bytes) } : line)
    }
  }
  return events
}

const texts = [
  '{"projectId":"a","eventId":"e"}',
  '{ "n" : 12345678901234567890.10, "n":1e400 , "s":"\\u0041\\ud83d" }',
  '{"s":"é😀,\\"event\\":{}","event":{"cursor":"x"}}',
  '{}',
]
const events = texts.map((text, i) => ({ cursor: `c",\\"event":${i}`, receivedAt: 1795203225083 + i, text }))
const lines = Buffer.concat(events.map(({ text, ...rest }) => eventLine({ ...rest, bytes: Buffer.from(text) })))

t.test('event lines are parsed byte for byte, at any chunk boundaries', async (t) => {
  t.strictSame(await parseLines(), [])
  t.strictSame(await parseLines(lines), events)
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(lines.length)), async (cuts) => {
      const ends = [...cuts, lines.length].sort((a, b) => a - b)
      t.strictSame(await parseLines(...ends.map((end, i) => lines.subarray(ends[i - 1] ?? 0, end))), events)
    }),
    { numRuns: 100 },
  )
})

t.test('a line without an event is a read mark', async (t) => {
  t.strictSame(await parseLines(lines, '{"cursor":"a"}\n'), [...events, { cursor: 'a' }])
  t.strictSame(await parseLines('{"cursor":"a,\\"b"}\n'), [{ cursor: 'a,"b' }])
})

t.test('the lines before an invalid line are events, even in the same chunk', async (t) => {
  const pages = parseEventLines([Buffer.concat([lines, Buffer.from('{}\n')])])
  t.equal((await pages.next()).value?.events.length, events.length)
  await t.rejects(pages.next(), { code: 'unexpected-response' })
})

t.test('any other line throws', async (t) => {
  const broken = [
    '<html></html>\n',
    '\n',
    '{}\n',
    'null\n',
    '{"cursor":7}\n',
    '{"cursor":"a"',
    '{"cursor":"a","receivedAt":1}\n',
    '{"cursor":7,"receivedAt":1,"event":{}}\n',
    '{"cursor":"a","receivedAt":"1","event":{}}\n',
    '{"cursor":"a","receivedAt":1.5,"event":{}}\n',
    '{"cursor:"a","receivedAt":1,"event":{}}\n',
    '{"cursor":"a","receivedAt":1,"event":{}}',
  ]
  for (const line of broken) await t.rejects(parseLines(line), { code: 'unexpected-response' }, line)
  async function* endless() {
    for (;;) yield Buffer.alloc(65_536, 'x')
  }
  await t.rejects(parseEventLines(endless()).next(), { code: 'unexpected-response' }, 'of unlimited length')
})
