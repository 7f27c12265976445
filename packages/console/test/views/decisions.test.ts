import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createIngest, openMemoryStore } from '@ingest/core'
import t from 'tap'
import type { RejectionGroup } from '../../page/api/bodies.ts'
import { curlCommand, sampleBatch } from '../../page/api/sample-batch.ts'
import { formatShare } from '../../page/format.ts'
import { rowAfterKey, scrollToRow, visibleRows } from '../../page/parts/visible-rows.ts'
import { fileNameOf, isJsonType } from '../../page/views/maps/file-name.ts'
import { type AttentionInputs, findAttention } from '../../page/views/now/find-attention.ts'
import { busyCountsOf, trendOf } from '../../page/views/now/trend.ts'
import { countSenders, filterGroups, mergeCauses, samplesOf, toNdjson } from '../../page/views/rejected/causes.ts'

t.test('steady counts that end have stopped; those that begin after a silence are new', async (t) => {
  t.equal(trendOf([3, 2, 4, 3, 0, 0, 0]), 'stopped')
  t.equal(trendOf([0, 0, 0, 1, 2, 1, 3]), 'new')
  t.equal(trendOf([1, 2, 1, 3, 0, 0]), undefined, 'a short silence')
  t.equal(trendOf([1, 0, 0, 0, 0, 1, 0, 0, 0, 0]), undefined, 'a rare type has such pauses')
  t.equal(trendOf([0, 0, 0, 0]), undefined)
  t.equal(trendOf([]), undefined)
})

t.test('starting or stopping together with the whole project is not a trend', async (t) => {
  const steps = [0, 0, 0, 2, 2, 2, 2, 0, 0, 0].map((accepted) => ({ at: '', accepted, duplicates: 0, rejected: 0 }))
  const of = (counts: number[]) =>
    trendOf(busyCountsOf({ from: '', to: '', servers: 1, stepSeconds: 60, steps }, counts))
  t.equal(of([0, 0, 0, 1, 1, 1, 1, 0, 0, 0]), undefined)
  t.equal(of([0, 0, 0, 0, 0, 0, 1, 0, 0, 0]), 'new')
  t.equal(of([0, 0, 0, 1, 0, 0, 0, 0, 0, 0]), 'stopped')
})

t.test('a share above 0 is never shown as 0', async (t) => {
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
    keyName: null,
    serverIds: [{ serverId: 'jfk-1', count }],
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
    rejections({ keyId: 'k-2' }, 5, 2),
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
  t.strictSame(groups[0]?.counts, [0, 2], 'the groups are unchanged')
})

t.test('the senders of a cause add up, most frequent first, with events without a valid build', async (t) => {
  const groups = [
    rejections({ buildId: 'b-1', keyId: 'k-1', keyName: 'Live' }, 3, 1),
    rejections({ type: 'shot' }, 4, 2),
    rejections({ buildId: 'b-1', serverIds: [{ serverId: null, count: 2 }] }, 2, 3),
  ]
  t.strictSame(countSenders(groups, 'build'), [
    { id: 'b-1', name: null, count: 5 },
    { id: null, name: null, count: 4 },
  ])
  t.strictSame(countSenders(groups, 'key'), [
    { id: null, name: null, count: 6 },
    { id: 'k-1', name: 'Live', count: 3 },
  ])
  t.strictSame(countSenders(groups, 'server'), [
    { id: 'jfk-1', name: null, count: 7 },
    { id: null, name: null, count: 2 },
  ])
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

const shell = '/bin/sh'
const skip = !existsSync(shell) && `${shell} is missing`

t.test('the command sends a valid batch with a new id and no build', { skip }, async (t) => {
  const ingest = createIngest({ store: openMemoryStore() })
  t.teardown(() => ingest.close())
  for (const events of [1, 2]) {
    const [batch = '', ...args] = argumentsOf(curlCommand('demo', sampleBatch('demo'))).reverse()
    t.strictSame(args.reverse(), [
      'http://localhost/v1/events/batch',
      '-H',
      'X-Project-Id: demo',
      '-H',
      'X-Ingestion-Key: ik_1',
      '-H',
      'Content-Type: application/json',
      '--data-raw',
    ])
    t.match(await ingest.project('demo').submitBatch(Buffer.from(batch)), { accepted: 1 })
    t.equal((await ingest.project('demo').getStats()).events, events)
  }
  t.match(await ingest.project('demo').listBuilds(), { builds: { length: 0 } })
})

t.test('a shell passes on every batch unchanged', { skip }, async (t) => {
  for (const batch of [
    `{"note":"it's $HOME \`id\` $(id) " \\\\ !! * 'quoted' ''"}`,
    '{\n  "a": "🎮"\n}\n',
    '@/etc/passwd',
    '-X',
    '',
  ])
    t.equal(argumentsOf(curlCommand('demo', batch)).at(-1), batch)
})

/** The arguments that a shell passes to curl. */
function argumentsOf(command: string): string[] {
  const script = `curl() { printf '%s\\0' "$@"; }\n${command}`
  const output = execFileSync(shell, ['-c', script], { encoding: 'utf8', env: { INGEST_KEY: 'ik_1' } })
  return output.split('\0').slice(0, -1)
}

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

t.test('characters that file systems refuse are replaced', async (t) => {
  t.equal(nameOf('text/plain', '../a/b', 'c:\u0000 d\u202e"'), '__a_b-c___d__.txt')
  t.equal(nameOf('text/plain', '🎮'.repeat(100)), `${'🎮'.repeat(60)}.txt`, 'at most 255 bytes')
})

t.test('JSON is recognized by its content type', async (t) => {
  t.ok(['application/json', 'text/json', 'application/vnd.game+json;v=1'].every(isJsonType))
  t.notOk(['application/jsonl', 'text/plain', 'json', ''].some(isJsonType))
})

t.test('only visible rows and some around them are rendered', async (t) => {
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

const at = '2026-11-20T12:00:00Z'
const volume = (name: string, accepted: number, rejected: number, counts: number[] = [accepted]) => {
  return { name, accepted, rejected, firstAt: at, lastAt: at, counts }
}
function activityOf(groups: ReturnType<typeof volume>[], counts = [1, 1]) {
  const steps = counts.map((accepted) => ({ at, accepted, duplicates: 0, rejected: 0 }))
  return { from: at, to: at, stepSeconds: 600, servers: 1, steps, groups }
}
const build = (buildId: string, hour: string, maps: number) => {
  return { buildId, frozenAt: `2026-11-20T${hour}:00:00Z`, maps }
}
const attention = (inputs: Partial<AttentionInputs>) =>
  findAttention({
    types: undefined,
    builds: undefined,
    newest: undefined,
    consumers: undefined,
    now: Date.parse(at),
    ...inputs,
  }).map(({ subject, text }) => [subject, text.split(' ', 2).join(' ')])

t.test('a build needs attention above 20 rejected events, 1 % and the share of the build before', async (t) => {
  const newest = [build('b', '02', 0), build('a', '01', 0)]
  const of = (a: [number, number], b: [number, number]) =>
    attention({ newest, builds: activityOf([volume('a', ...a), volume('b', ...b)]) }).map(([subject]) => subject)
  t.strictSame(of([100, 0], [100, 20]), [])
  t.strictSame(of([100, 0], [100, 21]), ['b'])
  t.strictSame(of([100, 0], [9_900, 100]), [], '1 %')
  t.strictSame(of([100, 0], [9_899, 101]), ['b'])
  t.strictSame(of([100, 30], [100, 30]), ['a'], 'the share is not larger than that of the build before')
})

t.test('a build that sends events without a map needs attention if another build has one', async (t) => {
  const builds = activityOf([volume('a', 1, 0), volume('b', 1, 0)])
  const of = (...newest: ReturnType<typeof build>[]) => attention({ newest, builds }).map(([subject]) => subject)
  t.strictSame(of(build('b', '02', 0), build('a', '01', 0)), [])
  t.strictSame(of(build('b', '02', 0), build('a', '01', 1)), ['b'])
  t.strictSame(of(build('silent', '03', 0), build('a', '01', 1)), [])
})

t.test('a consumer needs attention beyond an hour, or with a cursor of another store', async (t) => {
  const lag = (seconds: number) => ({ events: 5, exact: true, seconds })
  const consumer = (name: string, lag: { events: number; exact: boolean; seconds: number } | null) => {
    return { name, cursor: '', updatedAt: at, lag }
  }
  const consumers = [consumer('in time', lag(3_600)), consumer('late', lag(3_601)), consumer('restored', null)]
  t.strictSame(attention({ consumers }), [
    ['late', 'is a'],
    ['restored', 'is a'],
  ])
})

t.test('a silent project is one line, and a silent type another', async (t) => {
  const types = [volume('a', 4, 0, [1, 1, 1, 1, 0, 0, 0, 0]), volume('b', 8, 0, [1, 1, 1, 1, 1, 1, 1, 1])]
  t.strictSame(attention({ types: activityOf(types, [2, 2, 2, 2, 1, 1, 1, 1]) }), [['a', 'has stopped']])
  t.strictSame(attention({ types: activityOf(types, [2, 2, 2, 2, 0, 0, 0, 0]) }), [[undefined, 'No events']])
})
