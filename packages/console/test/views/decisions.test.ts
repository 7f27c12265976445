import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createIngest, openMemoryStore } from '@ingest/core'
import t from 'tap'
import type { RejectionGroup } from '../../page/api/bodies.ts'
import { rowAfterKey, scrollToRow, visibleRows } from '../../page/parts/visible-rows.ts'
import { fileNameOf, isJsonType } from '../../page/views/maps/file-name.ts'
import { formatShare, trendOf } from '../../page/views/now/trend.ts'
import { filterGroups, mergeCauses, samplesOf, toNdjson } from '../../page/views/rejected/causes.ts'
import {
  type BatchResponse,
  curlCommand,
  eventIdsOf,
  findBatchProblem,
  sampleBatch,
} from '../../page/views/try/batch.ts'
import { explainResponse, outcomesOf } from '../../page/views/try/explain-response.ts'

t.test('what arrived steadily and no longer does has stopped, what began has a silent start', async (t) => {
  t.equal(trendOf([3, 2, 4, 3, 0, 0, 0]), 'stopped')
  t.equal(trendOf([0, 0, 0, 1, 2, 1, 3]), 'new')
  t.equal(trendOf([1, 2, 1, 3, 0, 0]), undefined, 'a short silence')
  t.equal(trendOf([1, 0, 0, 0, 0, 1, 0, 0, 0, 0]), undefined, 'a rare type has such pauses')
  t.equal(trendOf([0, 0, 0, 0]), undefined)
  t.equal(trendOf([]), undefined)
})

t.test('a share that is not 0 does not read as none', async (t) => {
  t.equal(formatShare(0, 10), '0 %')
  t.equal(formatShare(1, 10_000), '< 0.1 %')
  t.equal(formatShare(46, 1_000), '4.6 %')
  t.equal(formatShare(10, 10), '100 %')
  t.equal(formatShare(0, 0), '0 %')
})

function rejections(origin: Partial<RejectionGroup>, count: number, minute: number): RejectionGroup {
  const at = `2026-11-20T17:0${minute}:00.000Z`
  return {
    code: 'invalid_type',
    path: '/visits/*/place',
    message: `At ${minute}`,
    buildId: null,
    type: null,
    keyId: null,
    server: 'a',
    ...origin,
    count,
    firstAt: at,
    lastAt: at,
    counts: [0, 0].with(minute % 2, count),
    samples: [{ receivedAt: at, eventId: `e-${minute}`, issues: [] }],
  }
}

t.test('groups with one issue are one cause, of any key and server', async (t) => {
  const groups = [
    rejections({ keyId: 'k-1' }, 2, 3),
    rejections({ keyId: 'k-2', server: 'b' }, 5, 2),
    rejections({ code: 'required', path: '/type' }, 4, 1),
  ]
  const [first, second] = mergeCauses(groups)
  t.match(first, {
    code: 'invalid_type',
    message: 'At 3',
    count: 7,
    counts: [5, 2],
    firstAt: '2026-11-20T17:02:00.000Z',
    lastAt: '2026-11-20T17:03:00.000Z',
  })
  t.strictSame(
    first?.groups.map(({ keyId }) => keyId),
    ['k-2', 'k-1'],
  )
  t.strictSame(first && samplesOf(first).map(({ eventId }) => eventId), ['e-3', 'e-2'])
  t.equal(second?.code, 'required')
  t.strictSame(groups[0]?.counts, [0, 2], 'they are left as they are')
})

t.test('an export has a line of JSON for each group', async (t) => {
  const groups = [rejections({ keyId: 'k-1' }, 2, 3), rejections({ type: 'a\nb' }, 1, 1)]
  const lines = toNdjson(groups).split('\n')
  t.equal(lines.pop(), '')
  t.same(
    lines.map((line) => JSON.parse(line)),
    groups,
  )
})

t.test('an address selects groups by their origin', async (t) => {
  const groups = [rejections({ keyId: 'k-1', type: 'shot' }, 1, 1), rejections({ keyId: 'k-2', type: 'shot' }, 1, 1)]
  const select = (query: string) => filterGroups(groups, new URLSearchParams(query)).length
  t.strictSame([select(''), select('type=shot'), select('type=shot&key=k-2'), select('key=')], [2, 2, 1, 0])
})

t.test('the sample is accepted, and freezes no build', async (t) => {
  const ingest = createIngest({ store: openMemoryStore() })
  t.teardown(() => ingest.close())
  const sample = sampleBatch('demo')
  t.equal(findBatchProblem(sample), undefined)
  t.match(await ingest.project('demo').submitBatch(Buffer.from(sample)), {
    accepted: 2,
    duplicates: 0,
    rejected: { length: 0 },
  })
  t.match(await ingest.project('demo').submitBatch(Buffer.from(sampleBatch('demo'))), { accepted: 2 }, 'with new ids')
  t.match(await ingest.project('demo').listBuilds(), { builds: { length: 0 } })
})

t.test('a text that is no batch is found', async (t) => {
  t.match(findBatchProblem('{"events":[}'), /^Not JSON: /)
  t.match(findBatchProblem(''), /^Not JSON: /)
  for (const text of ['[]', 'null', '1', '{"events":{}}']) t.match(findBatchProblem(text), /array "events"/, text)
})

t.test('the ids of a batch', async (t) => {
  t.strictSame(eventIdsOf('{"events":[{"eventId":"a"},{"eventId":1},null,3]}'), ['a', null, null, null])
})

const shell = '/bin/sh'
const skip = !existsSync(shell) && `${shell} is missing`

/** The arguments that a shell passes to curl. */
function argumentsOf(command: string): string[] {
  const script = `curl() { printf '%s\\0' "$@"; }\n${command}`
  const output = execFileSync(shell, ['-c', script], { encoding: 'utf8', env: { INGEST_KEY: 'ik_1' } })
  return output.split('\0').slice(0, -1)
}

t.test('a shell passes every body on as it is, and the key of its environment', { skip }, async (t) => {
  const bodies = [
    '{"events":[]}',
    `{"note":"it's $HOME \`id\` $(id) \\" \\\\ !! * 'quoted' ''"}`,
    '{\n  "a": "🎮"\n}\n',
    '@/etc/passwd',
    '-X',
    '',
  ]
  const url = 'http://localhost:8787/v1/events/batch'
  const headers = ['X-Project-Id: demo', 'X-Ingestion-Key: ik_1', 'Content-Type: application/json']
  for (const body of bodies) {
    const expected = [url, ...headers.flatMap((header) => ['-H', header]), '--data-raw', body]
    t.strictSame(argumentsOf(curlCommand(url, 'demo', body)), expected)
  }
})

t.test('a body that is too long for an argument reaches the standard input of curl', { skip }, async (t) => {
  const body = `{"note":"${"it's $HOME ".repeat(20_000)}"}`
  const command = curlCommand('http://localhost:8787/v1/events/batch', 'demo', body)
  const script = `curl() { shift $(($# - 1)); printf '%s ' "$1"; cat; }\n${command}`
  const maxBuffer = 2 * body.length
  t.equal(execFileSync(shell, { input: script, encoding: 'utf8', maxBuffer, env: process.env }), `@- ${body}`)
})

function response(status: number, body: object | string, retryAfter?: number): BatchResponse {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return { status, statusText: '', body: text, requestId: 'r', retryAfter, durationMs: 1 }
}
const explain = (...args: Parameters<typeof response>) => explainResponse(response(...args), 'demo').join(' ')

t.test('each status says what happened and what a sender does', async (t) => {
  t.match(explain(202, { accepted: 2, duplicates: 0, rejected: [] }), /^2 events accepted: stored durably\.$/)
  t.match(explain(202, { accepted: 0, duplicates: 1, rejected: [{}] }), /^1 duplicate: .* 1 event rejected: /)
  t.match(explain(202, { accepted: 0, duplicates: 0, rejected: [] }), /empty/)
  t.match(explain(400, { detail: 'No array.' }), /^No array\. Nothing was stored\. Senders drop/)
  t.match(explain(401, {}), /events:write.*--project demo --scope events:write/)
  t.match(explain(413, { detail: 'Too large.' }), /^Too large\. Nothing was stored/)
  t.match(explain(429, { detail: 'Slow.' }, 3), /^Slow\. .* again after 3 seconds/)
  t.match(explain(503, { detail: 'Draining.' }, 1), /^Draining\. .* again after 1 second/)
  t.match(explain(500, { detail: 'Bug.' }), /^Bug\. .* with backoff: a retry is safe/)
  t.match(explain(502, '<html>'), /not from an Ingest server/)
  t.match(explain(202, 'x'), /not from an Ingest server/)
})

const sent = JSON.stringify({ events: [{ eventId: 'a' }, { eventId: 'b' }, {}] })
const issues = [{ code: 'required', path: '/eventId', message: 'Missing.' }]
const outcomes = (body: object) => outcomesOf(sent, response(202, body))?.map(({ outcome }) => outcome)

t.test('each event has its outcome, as far as the response says it', async (t) => {
  const rejected = [{ index: 2, eventId: null, issues }]
  t.strictSame(outcomes({ accepted: 2, duplicates: 0, rejected }), ['accepted', 'accepted', 'rejected'])
  t.strictSame(outcomes({ accepted: 0, duplicates: 2, rejected }), ['duplicate', 'duplicate', 'rejected'])
  const unclear = 'accepted or duplicate'
  t.strictSame(outcomes({ accepted: 1, duplicates: 1, rejected }), [unclear, unclear, 'rejected'])
  t.strictSame(outcomesOf(sent, response(202, { accepted: 2, duplicates: 0, rejected }))?.[2], {
    index: 2,
    eventId: null,
    outcome: 'rejected',
    issues,
  })
  t.equal(outcomesOf(sent, response(400, {})), undefined)
})

const nameOf = (contentType: string, buildId = '2026.11.20', placeId = '1') =>
  fileNameOf({ buildId, placeId, contentType })

t.test('a file is named by build, place and content type', async (t) => {
  const types = [
    'application/json; charset=utf-8',
    'application/geo+json',
    'Text/Plain',
    'model/gltf+json',
    '__proto__',
  ]
  const extensions = ['json', 'json', 'txt', 'gltf', 'bin']
  t.strictSame(
    types.map((type) => nameOf(type)),
    extensions.map((extension) => `2026.11.20-1.${extension}`),
  )
})

t.test('what a file system refuses is left out', async (t) => {
  t.equal(nameOf('text/plain', '../a/b', 'c:\u0000 d\u202e"'), '__a_b-c___d__.txt')
  t.equal(nameOf('text/plain', '🎮'.repeat(100)), `${'🎮'.repeat(60)}.txt`, 'at most 255 bytes')
})

t.test('JSON is known by its content type', async (t) => {
  t.ok(['application/json', 'text/json', 'application/vnd.game+json;v=1'].every(isJsonType))
  t.notOk(['application/jsonl', 'text/plain', 'json', ''].some(isJsonType))
})

t.test('only rows that are visible are rendered, and some around them', async (t) => {
  t.strictSame(visibleRows({ scrollTop: 0, height: 100, rowHeight: 10 }, 1000), { first: 0, end: 18 })
  t.strictSame(visibleRows({ scrollTop: 5_005, height: 100, rowHeight: 10 }, 1000), { first: 492, end: 519 })
  t.strictSame(visibleRows({ scrollTop: 9_900, height: 100, rowHeight: 10 }, 1000), { first: 982, end: 1000 })
  t.strictSame(visibleRows({ scrollTop: 9_900, height: 100, rowHeight: 10 }, 3), { first: 0, end: 3 })
  t.strictSame(visibleRows({ scrollTop: 0, height: 100, rowHeight: 10 }, 0), { first: 0, end: 0 })
})

t.test('a row is scrolled to only if it is not visible', async (t) => {
  const view = { scrollTop: 100, height: 100, rowHeight: 10 }
  t.equal(scrollToRow(view, 15), 100)
  t.equal(scrollToRow(view, 2), 20)
  t.equal(scrollToRow(view, 20), 110)
})

t.test('keys move by row, page and to the ends', async (t) => {
  const after = (key: string, row: number, count = 100) => rowAfterKey(key, row, count, 10)
  t.equal(after('ArrowDown', -1), 0)
  t.equal(after('ArrowDown', 99), 99)
  t.equal(after('ArrowUp', 0), 0)
  t.equal(after('PageDown', 5), 15)
  t.equal(after('PageUp', 5), 0)
  t.equal(after('Home', 50), 0)
  t.equal(after('End', 50), 99)
  t.equal(after('Enter', -1), 0)
  t.equal(after('a', 5), undefined)
  t.equal(after('ArrowDown', 0, 0), undefined)
})
