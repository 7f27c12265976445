import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServe } from '../ingest-process.ts'
import { ingest, isWrongUsage } from '../run-ingest.ts'
import { createKey, exportedIds, idsOf, parseExport, projectId, send } from '../served.ts'

const data = t.testdir()
const store = ['--data', data, '--project', projectId]
const key = await createKey(data)
const server = await startServe(t, ['--data', data, '--rate-limit', 'off'])
const sender = { ...server, key }

/** As text of JSON, in ways that a parser would not give back. */
const odd = [
  '{"projectId":"game-1","eventId":"numbers","big":12345678901234567890123,"f":1.0,"e":1E+2,"z":-0,"p":0.1000}',
  '{ "projectId" :\t"game-1" ,  "eventId": "spaces" , "list":[ 1,2 , 3 ] }',
  '{"projectId":"game-1","eventId":"üñ\\u00ef 😀 \u2028","\\u0061":"\\/","k":1,"k":2,"__proto__":{"a":1}}',
  '{\r\n  "projectId":"game-1",\n  "eventId":"lines",\r\n\t"text":"a\\nb"\n}',
]
const asOneLine = odd.map((text) => text.replaceAll(/[\r\n]/g, ' '))
const small = idsOf('small', 5)
const before = Date.now()
await send(sender, `{"events" : [${odd.join(' ,\n')}], "other": {"events":[1]}}`)
await send(sender, small)
const after = Date.now()

const whole = await ingest(['export', ...store])
const lines = parseExport(whole.stdout)

t.test('beside a running server it gives what was acknowledged, exactly as it was sent, an event a line', (t) => {
  t.match(whole, { code: 0, stderr: /^$/ })
  t.strictSame(
    lines.map(({ event }) => event),
    [...asOneLine, ...small.map((eventId) => JSON.stringify({ projectId, eventId }))],
    'in the order of the batches and within them',
  )
  t.end()
})

t.test('each line is the cursor, the time and the event', (t) => {
  for (const line of whole.stdout.trimEnd().split('\n')) {
    t.strictSame(Object.keys(JSON.parse(line)), ['cursor', 'receivedAt', 'event'])
  }
  t.ok(lines.every(({ receivedAt }) => receivedAt >= before && receivedAt <= after))
  t.equal(new Set(lines.map(({ cursor }) => cursor)).size, lines.length)
  t.end()
})

t.test('--after resumes behind any event', async (t) => {
  const all = whole.stdout.split(/(?<=\n)/)
  for (const at of [0, 3, 8]) {
    const { code, stdout, stderr } = await ingest(['export', ...store, '--after', lines[at]?.cursor ?? ''])
    t.match({ code, stderr }, { code: 0, stderr: /^$/ })
    t.equal(stdout, all.slice(at + 1).join(''))
  }
})

t.test('--limit is how many come at most', async (t) => {
  for (const limit of [0, 1, 5, lines.length + 1]) {
    const { code, stdout, stderr } = await ingest(['export', ...store, '--limit', String(limit)])
    t.match({ code, stderr }, { code: 0, stderr: /^$/ })
    t.strictSame(parseExport(stdout), lines.slice(0, limit))
  }
})

t.test('--type, --build, --from and --to choose, on standard output and into files', async (t) => {
  const own = ['--data', join(t.testdir({}), 'data'), '--project', 'chosen']
  const events = ['a', 'b', 'c', 'd'].map((eventId, i) => ({ eventId, type: `t${i % 2}`, buildId: `b${i >> 1}` }))
  const file = join(t.testdirName, 'events.ndjson')
  writeFileSync(file, events.map((event) => JSON.stringify(event)).join('\n'))
  t.equal((await ingest(['keys', 'create', ...own])).code, 0)
  t.equal((await ingest(['send', file, ...own])).code, 0)
  const idsWith = async (...args: string[]) => {
    const { code, stdout, stderr } = await ingest(['export', ...own, ...args])
    t.match({ code, stderr }, { code: 0, stderr: /^$/ })
    return parseExport(stdout).map(({ event }) => JSON.parse(event).eventId)
  }
  t.strictSame(await idsWith('--type', 't0'), ['a', 'c'])
  t.strictSame(await idsWith('--type', 't1', '--build', 'b1'), ['d'])
  t.strictSame(await idsWith('--from', '1h'), ['a', 'b', 'c', 'd'])
  t.strictSame(await idsWith('--to', '1h'), [])
  t.strictSame(await idsWith('--from', '2999-01-01T00:00:00Z'), [])
  const output = join(t.testdirName, 'files')
  t.match(await ingest(['export', ...own, '--type', 't1', '--output', output]), {
    code: 0,
    stdout: /exported 2 events/,
  })
  t.match(await ingest(['export', ...own, '--type', 't0', '--output', output]), {
    code: 2,
    stderr: /belongs to the type t1, and not to t0/,
  })
  t.match(await ingest(['export', ...own, '--from', '1h', '--to', '2h']), {
    code: 2,
    stderr: /--from must be before/,
  })
  for (const [option, value] of [
    ['--from', 'yesterday'],
    ['--to', '2026-11-20'],
  ] as const) {
    const { code, stdout, stderr } = await ingest(['export', ...own, option, value])
    t.match({ code, stdout }, { code: 2, stdout: /^$/ })
    t.match(stderr, `${option} expects a duration such as 10m, or a time`)
  }
})

t.test('pages put together are the whole', async (t) => {
  let pages = ''
  let cursor: string | undefined
  for (let page = 0; page <= lines.length / 4; page++) {
    const { stdout } = await ingest(['export', ...store, '--limit', '4', ...(cursor ? ['--after', cursor] : [])])
    pages += stdout
    cursor = parseExport(stdout).at(-1)?.cursor
  }
  t.equal(pages, whole.stdout)
})

t.test('a limit or a cursor that cannot be one is wrong use', async (t) => {
  for (const limit of ['', '-1', '1.5', 'all', '9007199254740992']) {
    await isWrongUsage(t, ['export', ...store, '--limit', limit], /'--limit <n>' argument '.*' is invalid/)
  }
  for (const cursor of ['', '1-2-3']) {
    await isWrongUsage(
      t,
      ['export', ...store, '--after', cursor],
      /The cursor is not one that this store has given out/,
    )
  }
})

t.test('a project that nobody knows is said so, and is no failure', async (t) => {
  const other = ['export', '--data', data, '--project', 'gmae-1']
  t.strictSame(await ingest(other), {
    code: 0,
    signal: null,
    stdout: '',
    stderr: 'ingest: the project gmae-1 is unknown: it has no events and no keys\n',
  })
  const empty = t.testdir()
  await createKey(empty)
  t.strictSame(
    await ingest(['export', '--data', empty, '--project', projectId]),
    { code: 0, signal: null, stdout: '', stderr: '' },
    'one that has just no events is known',
  )
})

t.test('what a server stores is there from its acknowledgement on, and once it is gone', async (t) => {
  const own = await startServe(t, ['--data', data])
  for (let i = 0; i < 2; i++) {
    t.match(await send({ ...own, key }, [`later-${i}`]), { status: 202, body: { accepted: 1 } })
    t.equal((await exportedIds(data)).at(-1), `later-${i}`)
  }
  own.signal('SIGKILL')
  await own.exited
  t.strictSame((await exportedIds(data)).slice(-2), idsOf('later', 2))
})

t.test('what is about files needs --output', async (t) => {
  const options = [['--every', 'day'], ['--max-size', '1M'], ['--format', 'ndjson'], ['--gzip']]
  for (const option of options) {
    await isWrongUsage(
      t,
      ['export', ...store, ...option],
      new RegExp(`${option[0]} requires --output: it applies to files`),
    )
  }
  await isWrongUsage(t, ['export', ...store, '--cursor-file', 'c'], /--cursor-file requires --output: the fate/)
})

t.test('--json without --output is the lines, and behind them an object when it fails', async (t) => {
  t.equal((await ingest(['export', ...store, '--json'])).stdout, (await ingest(['export', ...store])).stdout)
  t.match(await ingest(['export', ...store, '--json', '--after', 'nonsense']), {
    code: 2,
    stdout: /^\{"ok":false,"error":\{"code":"invalid-cursor",.*\}\}\n$/,
  })
})

t.test('an option of files that cannot be is wrong use, and makes no directory', async (t) => {
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
    await isWrongUsage(t, ['export', ...store, '--output', output, name, value], pattern)
  }
  await isWrongUsage(t, ['export', ...store, '--output', ''], /non-empty/)
  t.notOk(existsSync(output))
})

t.test('--json is one object that names the files', async (t) => {
  const output = join(t.testdir(), 'files')
  const args = ['export', ...store, '--output', output, '--limit', '5', '--max-size', '400', '--json']
  const { code, stdout, stderr } = await ingest(args)
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

  const nothing = JSON.parse((await ingest([...args, '--limit', '0'])).stdout)
  t.match(nothing, { ok: true, events: 0, bytes: 0, files: [], cursor })
  const failed = await ingest(['export', ...store, '--output', join(output, names[0] ?? ''), '--json'])
  t.match(failed, { code: 2, stderr: /^ingest: .* cannot be written: .*\n$/ })
  t.match(JSON.parse(failed.stdout), { ok: false, error: { code: 'invalid-argument', retryable: false } })
})

t.test('the cursor file may stand elsewhere', async (t) => {
  const path = t.testdir()
  const args = ['export', ...store, '--output', join(path, 'files'), '--cursor-file', join(path, 'cursor.json')]
  t.match(await ingest(args), { code: 0 })
  t.strictSame(readdirSync(path), ['cursor.json', 'files'])
  t.equal(readdirSync(join(path, 'files')).length, 1)
  t.match(await ingest(args), { code: 0, stdout: /^exported nothing/ })
  await isWrongUsage(
    t,
    [...args.slice(0, -3), join(path, 'other'), ...args.slice(-2)],
    /belongs to the directory files/,
  )
})

t.test('files of a project that nobody knows are none, and that is said', async (t) => {
  const output = join(t.testdir(), 'files')
  t.match(await ingest(['export', '--data', data, '--project', 'gmae-1', '--output', output]), {
    code: 0,
    stdout: /^exported nothing/,
    stderr: /^ingest: the project gmae-1 is unknown/,
  })
})
