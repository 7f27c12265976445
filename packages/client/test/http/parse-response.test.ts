import { eventLine } from '@ingest/core'
import fc from 'fast-check'
import t from 'tap'
import {
  parseActivity,
  parseBatchResult,
  parseBuildPage,
  parseCompleted,
  parseEventLines,
  parseMapPage,
  parseMapStatus,
  parseProjectStats,
  parsePublishedMap,
  parsePutChunksResult,
  parseRecentRejections,
} from '../../src/http/parse-response.ts'
import { withUnixTimes } from '../scripted-server.ts'

const digest = `sha256:${'0a'.repeat(32)}`
const status = {
  placeId: '1',
  buildId: 'b',
  state: 'complete',
  digest,
  size: 1,
  contentType: 'application/json',
  chunks: 1,
  frozen: false,
  missing: [],
  publishedAt: '2026-11-20T17:51:00.000Z',
}
const time = '2026-11-20T17:51:00.000Z'
const published = { ...status, outcome: 'created' }
const known = { ...status, frozenAt: null, pending: null }

const activity = { since: time, servers: 1, minutes: [{ at: time, accepted: 1, duplicates: 0, rejected: 2 }] }
const issue = { code: 'invalid_type', path: '/type', message: 'Expected a string.' }
const group = { ...issue, count: 1, lastAt: time }
const recent = { receivedAt: time, index: 1, eventId: null, issues: [issue] }
const rejections = { since: time, total: 2, groups: [group], rejected: [recent, { ...recent, event: '5' }] }

const counts = { events: 3, batches: 2, bytes: 100, builds: 2, frozenBuilds: 1, maps: 1 }

type Parse = (body: Uint8Array) => unknown

const good: [string, Parse, object][] = [
  [
    'parseBatchResult',
    parseBatchResult,
    { accepted: 1, duplicates: 0, rejected: [{ index: 1, eventId: null, issues: [] }] },
  ],
  ['parsePublishedMap', parsePublishedMap, published],
  [
    'parsePublishedMap',
    parsePublishedMap,
    { ...published, outcome: 'incomplete', state: 'incomplete', missing: [digest], publishedAt: null },
  ],
  ['parseMapStatus', parseMapStatus, known],
  [
    'parseMapStatus',
    parseMapStatus,
    { ...known, frozenAt: time, pending: { digest, size: 1, contentType: 'a/b', chunks: 1, missing: [digest] } },
  ],
  ['parseMapPage', parseMapPage, { maps: [known], next: 'cursor' }],
  ['parseMapPage', parseMapPage, { maps: [], next: null }],
  [
    'parsePutChunksResult',
    parsePutChunksResult,
    { stored: 1, existing: 0, rejected: [{ index: 0, digest: null, issues: [] }], completed: [published] },
  ],
  ['parseCompleted', parseCompleted, { outcome: 'stored', completed: [] }],
  [
    'parseProjectStats',
    parseProjectStats,
    { ...counts, eventsPerSecond: 0, firstAt: null, lastAt: '2026-11-20T17:51:00.000Z' },
  ],
  ['parseBuildPage', parseBuildPage, { builds: [{ buildId: 'b', frozenAt: null, maps: 0 }], next: null }],
  ['parseActivity', parseActivity, activity],
  ['parseRecentRejections', parseRecentRejections, rejections],
]

function bytesOf(value: unknown): Uint8Array {
  return Buffer.from(` ${JSON.stringify(value)}`).subarray(1)
}

for (const [name, parse, value] of good) {
  t.test(`${name} accepts valid responses and additional members`, async (t) => {
    t.strictSame(parse(bytesOf(value)), withUnixTimes(value))
    t.match(parse(bytesOf({ ...value, further: 1 })), withUnixTimes(value))
  })

  t.test(`${name} throws for invalid responses`, async (t) => {
    for (const other of [null, 7, 'text', [], {}, [value]]) {
      t.throws(() => parse(bytesOf(other)), { code: 'unexpected-response' })
    }
    for (const member of Object.keys(value)) {
      for (const wrong of [undefined, 1.5, {}, [null]]) {
        if (member === 'pending' && typeof wrong === 'object') continue
        if (member === 'eventsPerSecond' && wrong === 1.5) continue
        t.throws(
          () => parse(bytesOf({ ...value, [member]: wrong })),
          { code: 'unexpected-response' },
          `${member} ${wrong}`,
        )
      }
    }
  })
}

t.test('a response that is not JSON throws', async (t) => {
  for (const body of ['', '<html>', '{']) {
    t.throws(() => parseBatchResult(Buffer.from(body)), { code: 'unexpected-response' })
  }
})

t.test('statistics have a fractional rate and valid times', async (t) => {
  const stats = { ...counts, eventsPerSecond: 0.25, firstAt: null, lastAt: null }
  t.strictSame(parseProjectStats(bytesOf(stats)), stats)
  for (const wrong of [{ eventsPerSecond: -1 }, { eventsPerSecond: '1' }, { firstAt: 'then' }, { lastAt: 5 }]) {
    t.throws(() => parseProjectStats(bytesOf({ ...stats, ...wrong })), { code: 'unexpected-response' })
  }
})

t.test('each minute, group and rejected event is checked', async (t) => {
  const wrong: [Parse, object][] = [
    [parseActivity, { ...activity, since: 'then' }],
    ...Object.keys(activity.minutes[0] as object).map((name): [Parse, object] => [
      parseActivity,
      { ...activity, minutes: [{ ...activity.minutes[0], [name]: undefined }] },
    ]),
    ...Object.keys(group).map((name): [Parse, object] => [
      parseRecentRejections,
      { ...rejections, groups: [{ ...group, [name]: undefined }] },
    ]),
    ...Object.keys(recent).map((name): [Parse, object] => [
      parseRecentRejections,
      { ...rejections, rejected: [{ ...recent, [name]: undefined }] },
    ]),
    [parseRecentRejections, { ...rejections, rejected: [{ ...recent, event: {} }] }],
    [parseRecentRejections, { ...rejections, rejected: [{ ...recent, issues: [{ ...issue, path: 5 }] }] }],
  ]
  for (const [parse, value] of wrong) {
    t.throws(() => parse(bytesOf(value)), { code: 'unexpected-response' }, JSON.stringify(value))
  }
})

async function* body(...parts: (string | Uint8Array)[]) {
  for (const part of parts) yield Buffer.from(part)
}

async function parseLines(...parts: (string | Uint8Array)[]) {
  const events = []
  for await (const line of parseEventLines(body(...parts))) {
    const { cursor, ...rest } = line
    events.push('receivedAt' in rest ? { cursor, receivedAt: rest.receivedAt, text: String(line.bytes) } : line)
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

t.test('an empty body has no events', async (t) => {
  t.strictSame(await parseLines(), [])
  t.strictSame(await parseLines(''), [])
})

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
for (const line of broken) {
  t.test(`the line ${JSON.stringify(line)} throws`, async (t) => {
    await t.rejects(parseLines(line), { code: 'unexpected-response' })
  })
}

t.test('a line of unlimited length throws', async (t) => {
  async function* endless() {
    for (;;) yield Buffer.alloc(65_536, 'x')
  }
  await t.rejects(parseEventLines(endless()).next(), { code: 'unexpected-response' })
})
