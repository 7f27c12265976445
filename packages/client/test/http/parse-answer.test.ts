import t from 'tap'
import {
  parseBatchResult,
  parseBuildPage,
  parseCompleted,
  parseMapPage,
  parseMapStatus,
  parseProjectStats,
  parsePublishedMap,
  parsePutChunksResult,
} from '../../src/http/parse-response.ts'

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
const published = { ...status, outcome: 'created' }
const known = { ...status, frozenAt: null, pending: null }

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
  ['parseMapStatus', parseMapStatus, { ...known, frozenAt: 'then', pending: { digest } }],
  ['parseMapPage', parseMapPage, { maps: [known], next: 'cursor' }],
  ['parseMapPage', parseMapPage, { maps: [], next: null }],
  [
    'parsePutChunksResult',
    parsePutChunksResult,
    { stored: 1, existing: 0, rejected: [{ index: 0 }], completed: [published] },
  ],
  ['parseCompleted', parseCompleted, { completed: [] }],
  [
    'parseProjectStats',
    parseProjectStats,
    { ...counts, eventsPerSecond: 0, firstAt: null, lastAt: '2026-11-20T17:51:00.000Z' },
  ],
  ['parseBuildPage', parseBuildPage, { builds: [{ buildId: 'b', frozenAt: null, maps: 0 }], next: null }],
]

function bytesOf(value: unknown): Uint8Array {
  return Buffer.from(` ${JSON.stringify(value)}`).subarray(1)
}

for (const [name, parse, value] of good) {
  t.test(`${name} takes what the contract says, and more`, async (t) => {
    t.strictSame(parse(bytesOf(value)), value)
    t.match(parse(bytesOf({ ...value, further: 1 })), value)
  })

  t.test(`${name} takes nothing else`, async (t) => {
    for (const other of [null, 7, 'text', [], {}, [value]]) {
      t.throws(() => parse(bytesOf(other)), { code: 'unexpected-answer' })
    }
    for (const member of Object.keys(value)) {
      for (const wrong of [undefined, 1.5, {}, [null]]) {
        if (member === 'pending' && typeof wrong === 'object') continue
        if (member === 'eventsPerSecond' && wrong === 1.5) continue
        t.throws(
          () => parse(bytesOf({ ...value, [member]: wrong })),
          { code: 'unexpected-answer' },
          `${member} ${wrong}`,
        )
      }
    }
  })
}

t.test('what is not JSON is no answer', async (t) => {
  for (const body of ['', '<html>', '{']) {
    t.throws(() => parseBatchResult(Buffer.from(body)), { code: 'unexpected-answer' })
  }
})

t.test('a rate need not be whole, and a time must be one', async (t) => {
  const stats = { ...counts, eventsPerSecond: 0.25, firstAt: null, lastAt: null }
  t.strictSame(parseProjectStats(bytesOf(stats)), stats)
  for (const wrong of [{ eventsPerSecond: -1 }, { eventsPerSecond: '1' }, { firstAt: 'then' }, { lastAt: 5 }]) {
    t.throws(() => parseProjectStats(bytesOf({ ...stats, ...wrong })), { code: 'unexpected-answer' })
  }
})
