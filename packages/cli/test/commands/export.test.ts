import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { openLmdbStore } from '@ingest/lmdb'
import t from 'tap'
import { spawnIngest } from '../ingest-process.ts'
import { ingest, isWrongUsage } from '../run-ingest.ts'
import { createKey, idsOf, openServed, parseExport, projectId, send, unknownProject } from '../served.ts'

const served = await openServed(t)
const { env, embedded } = served
const print = (...args: string[]) => ingest(['export', ...args], { env })

/** JSON texts that parsing and serializing would change. */
const odd = [
  '{"projectId":"game-1","eventId":"numbers","big":12345678901234567890123,"f":1.0,"e":1E+2,"z":-0,"p":0.1000}',
  '{ "projectId" :\t"game-1" ,  "eventId": "spaces" , "list":[ 1,2 , 3 ] }',
  '{"projectId":"game-1","eventId":"üñ\\u00ef 😀 \u2028","\\u0061":"\\/","k":1,"k":2,"__proto__":{"a":1}}',
  '{\r\n  "projectId":"game-1",\n  "eventId":"lines",\r\n\t"text":"a\\nb"\n}',
]
const asOneLine = odd.map((text) => text.replaceAll(/[\r\n]/g, ' '))
const small = idsOf('small', 5)
const before = Date.now()
await send(served, `{"events" : [${odd.join(' ,\n')}], "other": {"events":[1]}}`)
await send(served, small)
const after = Date.now()

const whole = await print()
const lines = parseExport(whole.stdout)

t.test('all stored events are printed byte for byte, one per line', (t) => {
  t.match(whole, { code: 0, stderr: /^$/ })
  t.strictSame(
    lines.map(({ event }) => event),
    [...asOneLine, ...small.map((eventId) => JSON.stringify({ projectId, eventId }))],
    'in the order of the batches and within them',
  )
  t.end()
})

t.test('each line has the cursor, the time of receipt and the event', (t) => {
  for (const line of whole.stdout.trimEnd().split('\n')) {
    t.strictSame(Object.keys(JSON.parse(line)), ['cursor', 'receivedAt', 'event'])
  }
  t.ok(lines.every(({ receivedAt }) => receivedAt >= before && receivedAt <= after))
  t.equal(new Set(lines.map(({ cursor }) => cursor)).size, lines.length)
  t.end()
})

t.test('--after resumes after any event', async (t) => {
  const all = whole.stdout.split(/(?<=\n)/)
  for (const at of [0, 3, 8]) {
    const { code, stdout, stderr } = await print('--after', lines[at]?.cursor ?? '')
    t.match({ code, stderr }, { code: 0, stderr: /^$/ })
    t.equal(stdout, all.slice(at + 1).join(''))
  }
})

t.test('--limit is the maximum number of events', async (t) => {
  for (const limit of [0, 1, 5, lines.length + 1]) {
    const { code, stdout, stderr } = await print('--limit', String(limit))
    t.match({ code, stderr }, { code: 0, stderr: /^$/ })
    t.strictSame(parseExport(stdout), lines.slice(0, limit))
  }
})

t.test('--type, --build, --from and --to select events, on standard output and in files', async (t) => {
  const directory = t.testdir({})
  const { key } = await embedded.keys.create('chosen')
  const own = { env: { ...env, INGEST_PROJECT_ID: 'chosen', INGEST_KEY: key } }
  const events = ['a', 'b', 'c', 'd'].map((eventId, i) => ({
    projectId: 'chosen',
    eventId,
    type: `t${i % 2}`,
    buildId: `b${i >> 1}`,
  }))
  await embedded.project('chosen').submitBatch({ events })
  const idsWith = async (...args: string[]) => {
    const { code, stdout, stderr } = await ingest(['export', ...args], own)
    t.match({ code, stderr }, { code: 0, stderr: /^$/ })
    return parseExport(stdout).map(({ event }) => JSON.parse(event).eventId)
  }
  t.strictSame(await idsWith('--type', 't0'), ['a', 'c'])
  t.strictSame(await idsWith('--type', 't1', '--build', 'b1'), ['d'])
  t.strictSame(await idsWith('--from', '1h'), ['a', 'b', 'c', 'd'])
  t.strictSame(await idsWith('--to', '1h'), [])
  t.strictSame(await idsWith('--from', '2999-01-01T00:00:00Z'), [])
  const output = join(directory, 'files')
  t.match(await ingest(['export', '--type', 't1', '--output', output], own), {
    code: 0,
    stdout: /exported 2 events/,
  })
  t.match(await ingest(['export', '--type', 't0', '--output', output], own), {
    code: 2,
    stderr: /belongs to the type t1, and not to t0/,
  })
  t.match(await ingest(['export', '--from', '1h', '--to', '2h'], own), {
    code: 2,
    stderr: /--from must be before/,
  })
  for (const [option, value] of [
    ['--from', 'yesterday'],
    ['--to', '2026-11-20'],
  ] as const) {
    const { code, stdout, stderr } = await ingest(['export', option, value], own)
    t.match({ code, stdout }, { code: 2, stdout: /^$/ })
    t.match(stderr, `${option} expects a duration such as 10m, or a time`)
  }
})

t.test('pages together hold all events', async (t) => {
  let pages = ''
  let cursor: string | undefined
  for (let page = 0; page <= lines.length / 4; page++) {
    const { stdout } = await print('--limit', '4', ...(cursor ? ['--after', cursor] : []))
    pages += stdout
    cursor = parseExport(stdout).at(-1)?.cursor
  }
  t.equal(pages, whole.stdout)
})

t.test('an invalid limit or cursor is wrong usage', async (t) => {
  for (const limit of ['', '-1', '1.5', 'all', '9007199254740992']) {
    await isWrongUsage(t, ['export', '--limit', limit], /'--limit <n>' argument '.*' is invalid/, { env })
  }
  for (const cursor of ['', '1-2-3']) {
    await isWrongUsage(t, ['export', '--after', cursor], /The cursor is not an event cursor of this store/, { env })
  }
})

t.test('an unknown project in a store: exit code 3, and no files', async (t) => {
  const path = t.testdir()
  const data = join(path, 'data')
  await createKey(data)
  const failure = { code: 3, signal: null, stdout: '', stderr: unknownProject }
  const unknown = ['export', '--store', data, '--project', 'gmae-1']
  t.strictSame(await ingest(unknown), failure)
  t.strictSame(await ingest([...unknown, '--output', join(path, 'files')]), failure)
  t.notOk(existsSync(join(path, 'files')))
  t.match(JSON.parse((await ingest([...unknown, '--json'])).stdout), {
    ok: false,
    error: { code: 'project-not-found' },
  })
  t.strictSame(
    await ingest(['export', '--store', data, '--project', projectId]),
    { code: 0, signal: null, stdout: '', stderr: '' },
    'a project without events is known',
  )
})

t.test('the built command exports acknowledged events while a server has the store open', async (t) => {
  const data = t.testdir()
  const own = await openServed(t, { store: await openLmdbStore(data) })
  for (let i = 0; i < 2; i++) {
    t.match(await send(own, [`later-${i}`]), { status: 202, body: { accepted: 1 } })
    const { code, stdout } = await spawnIngest(['export', '--store', data, '--project', projectId])
    t.equal(code, 0)
    t.strictSame(
      parseExport(stdout).map(({ event }) => JSON.parse(event).eventId),
      idsOf('later', i + 1),
    )
  }
})

t.test('options for files require --output', async (t) => {
  const options = [['--every', 'day'], ['--max-size', '1M'], ['--format', 'ndjson'], ['--gzip']]
  for (const option of options) {
    await isWrongUsage(t, ['export', ...option], new RegExp(`${option[0]} requires --output: it applies to files`), {
      env,
    })
  }
  await isWrongUsage(t, ['export', '--cursor-file', 'c'], /--cursor-file requires --output: the fate/, { env })
})

t.test('--json without --output prints NDJSON, and an object after a failure', async (t) => {
  t.equal((await print('--json')).stdout, whole.stdout)
  t.match(await print('--json', '--after', 'nonsense'), {
    code: 2,
    stdout: /^\{"ok":false,"error":\{"code":"invalid-cursor",.*\}\}\n$/,
  })
})

t.test('an invalid option for files is wrong usage, and creates no directory', async (t) => {
  const output = join(t.testdir(), 'files')
  const options = [
    ['--every', 'week'],
    ['--max-size', '0'],
    ['--max-size', '1T'],
    ['--format', 'csv'],
    ['--cursor-file', ''],
  ]
  for (const [name = '', value = ''] of options) {
    const pattern = new RegExp(`'${name} <\\w+>' argument '${value}' is invalid`)
    await isWrongUsage(t, ['export', '--output', output, name, value], pattern, { env })
  }
  await isWrongUsage(t, ['export', '--output', ''], /non-empty/, { env })
  t.notOk(existsSync(output))
})

t.test('--json prints one object with all files', async (t) => {
  const output = join(t.testdir(), 'files')
  const args = ['export', '--output', output, '--limit', '5', '--max-size', '400', '--json']
  const { code, stdout, stderr } = await ingest(args, { env })
  t.match({ code, stderr }, { code: 0, stderr: /^$/ })
  const { ok, events, bytes, files, cursor, durationMs } = JSON.parse(stdout)
  t.strictSame({ ok, events, cursor }, { ok: true, events: 5, cursor: lines[4]?.cursor })
  t.type(durationMs, 'number')
  const names = readdirSync(output).filter((name) => !name.startsWith('.'))
  t.ok(names.length > 1)
  t.strictSame(
    files.map(({ file }: { file: string }) => file),
    names.map((name) => join(output, name)),
  )
  t.equal(
    bytes,
    names.reduce((sum, name) => sum + statSync(join(output, name)).size, 0),
  )
  t.strictSame(Object.keys(files[0]).sort(), ['bytes', 'events', 'file', 'firstReceivedAt', 'lastReceivedAt', 'number'])
  t.match(files[0], { number: 1, firstReceivedAt: new Date(lines[0]?.receivedAt ?? 0).toISOString() })
  t.equal(
    names.map((name) => readFileSync(join(output, name), 'utf8')).join(''),
    whole.stdout
      .split(/(?<=\n)/)
      .slice(0, 5)
      .join(''),
  )

  const nothing = JSON.parse((await ingest([...args, '--limit', '0'], { env })).stdout)
  t.match(nothing, { ok: true, events: 0, bytes: 0, files: [], cursor })
  const failed = await print('--output', join(output, names[0] ?? ''), '--json')
  t.match(failed, { code: 2, stderr: /^ingest: .* cannot be written: .*\n$/ })
  t.match(JSON.parse(failed.stdout), { ok: false, error: { code: 'invalid-argument', retryable: false } })
})

t.test('--cursor-file may be outside of the directory', async (t) => {
  const path = t.testdir()
  const args = ['export', '--output', join(path, 'files'), '--cursor-file', join(path, 'cursor.json')]
  t.match(await ingest(args, { env }), { code: 0 })
  t.strictSame(readdirSync(path), ['cursor.json', 'files'])
  t.equal(readdirSync(join(path, 'files')).length, 1)
  t.match(await ingest(args, { env }), { code: 0, stdout: /^exported nothing/ })
  await isWrongUsage(
    t,
    [...args.slice(0, -3), join(path, 'other'), ...args.slice(-2)],
    /belongs to the directory files/,
    { env },
  )
})
