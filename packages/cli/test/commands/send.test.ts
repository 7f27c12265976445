import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import t from 'tap'
import { ingest, startRun } from '../run-ingest.ts'
import { createKey, linesOf, openServed, parseExport, projectId, startProxy, storedEvents } from '../served.ts'

const directory = t.testdir()
const { url, key, env, project } = await openServed(t)
let count = 0

function fileOf(text: string): string {
  const path = join(directory, `${++count}.ndjson`)
  writeFileSync(path, text)
  return path
}

function sendFile(file: string, ...args: string[]) {
  return ingest(['send', file, ...args], { env })
}

async function sendJson(file: string, ...args: string[]) {
  const { code, stdout } = await sendFile(file, '--json', ...args)
  t.match(stdout, /^\{.*\}\n$/, 'one object')
  return { code, ...JSON.parse(stdout) }
}

/** The stored events with ids `<name>-…`, byte for byte. */
async function storedOf(name: string): Promise<string[]> {
  const events = await storedEvents(project)
  return events.filter((event) => JSON.parse(event).eventId.startsWith(`${name}-`))
}

t.test('a file is sent byte for byte, and a second time all events are duplicates', async (t) => {
  const lines = [
    ...linesOf('whole', 250),
    '{ "eventId" : "whole-odd" , "projectId":"game-1","big":12345678901234567890123,"f":1.0,"k":1,"k":2}',
  ]
  const file = fileOf(`${lines.join('\n')}\n`)
  const amount = '\\d+\\.\\d kB in \\d+\\.\\d\\d s, \\d+ events?/s\\n$'
  t.match(await sendFile(file, '--concurrency', '1'), {
    code: 0,
    stdout: new RegExp(`^sent 251 events: 251 accepted, 0 duplicates, 0 rejected; ${amount}`),
    stderr: /^$/,
  })
  t.strictSame(await storedOf('whole'), lines, 'in the order of the file, with one batch in flight')
  t.match(await sendFile(file), {
    code: 0,
    stdout: new RegExp(`^sent 251 events: 0 accepted, 251 duplicates, 0 rejected; ${amount}`),
  })
  const bytes = readFileSync(file).length
  const again = await sendJson(file)
  t.match(again, { code: 0, ok: true, events: 251, accepted: 0, duplicates: 251, rejected: 0, madeIds: 0, bytes })
  t.ok(Number.isInteger(again.durationMs))
  t.strictSame(await sendFile(file, '--quiet'), { code: 0, signal: null, stdout: '', stderr: '' })
})

t.test('an array is sent, and standard input', async (t) => {
  const lines = linesOf('array', 120)
  t.match(await sendJson(fileOf(`\n[ ${lines.join(' ,\n')}\n]`)), { code: 0, accepted: 120 })
  t.strictSame((await storedOf('array')).sort(), [...lines].sort())
  const { code, stdout } = await ingest(['send', '-', '--json'], { env, stdin: linesOf('stdin', 3).join('\n') })
  t.match({ code, ...JSON.parse(stdout) }, { code: 0, accepted: 3 })
})

t.test('a slow pipe does not delay events until a batch is full', async (t) => {
  const stdin = new PassThrough()
  const { exited } = startRun(['send', '-', '--json'], { env, stdin })
  stdin.write(`${linesOf('pipe', 1)[0]}\n`)
  while ((await storedOf('pipe')).length === 0) await new Promise(setImmediate)
  stdin.end()
  const { code, stdout } = await exited
  t.match({ code, ...JSON.parse(stdout) }, { code: 0, ok: true, accepted: 1 })
})

t.test('events are stored in a directory, without a server, and an export of it is sent', async (t) => {
  const data = t.testdir()
  await createKey(data)
  const local = { INGEST_STORE: data, INGEST_PROJECT_ID: projectId }
  const lines = linesOf('moved', 150)
  const stored = await ingest(['send', '-', '--json'], { env: local, stdin: lines.join('\n') })
  t.match(JSON.parse(stored.stdout), { ok: true, accepted: 150 })
  const exported = await ingest(['export'], { env: local })
  const events = parseExport(exported.stdout).map(({ event }) => event)
  t.strictSame(events.sort(), lines.toSorted())
  const file = fileOf(exported.stdout)
  const again = await ingest(['send', file, '--json'], { env: local })
  t.match(JSON.parse(again.stdout), { accepted: 0, duplicates: 150 })
  t.match(await sendJson(file), { code: 0, accepted: 150, rejected: 0 }, 'into another store')
  t.strictSame((await storedOf('moved')).sort(), lines.toSorted())
})

t.test('rejected events are reported and do not fail the others: exit code 5', async (t) => {
  const [first = '', , , , last = ''] = linesOf('some', 5)
  const invalid = [
    '{"eventId":"some-1","buildId":7,"big":12345678901234567890123}',
    '{"type":"no id"}',
    '{"eventId":"some-3","projectId":"other"}',
  ]
  const file = fileOf([first, ...invalid, last, '{"a":'].join('\n'))
  t.match(await sendFile(file), {
    code: 5,
    stdout: /^sent 6 events: 2 accepted, 0 duplicates, 4 rejected; /,
    stderr:
      /^(ingest: line \d.*\n){4}ingest: 4 of 6 events were rejected, all others are stored: --rejected <file> writes them to a file; 1 without an eventId, .*--make-ids.*\n$/,
  })
  t.strictSame(await storedOf('some'), [first, last])
  const rejected = join(directory, 'rejected')
  t.match(await sendJson(file, '--rejected', rejected), {
    code: 5,
    ok: false,
    events: 6,
    accepted: 0,
    duplicates: 2,
    rejected: 4,
    error: { code: 'events-rejected', message: /the rejected events are in .*rejected/, retryable: false },
  })
  const kept = readFileSync(rejected, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  t.match(
    kept.sort((a, b) => a.line - b.line),
    [
      { line: 2, eventId: 'some-1', issues: [{ code: 'invalid_type', path: '/buildId' }] },
      { line: 3, eventId: null, issues: [{ code: 'required', path: '/eventId' }], event: { type: 'no id' } },
      { line: 4, eventId: 'some-3', issues: [{ code: 'project_mismatch' }] },
      { line: 6, eventId: null, issues: [{ code: 'not_object' }], event: '{"a":' },
    ],
  )
  t.match(readFileSync(rejected, 'utf8'), '"big":12345678901234567890123')
  const repaired = fileOf(readFileSync(rejected, 'utf8').replace('"buildId":7', '"buildId":"7"'))
  t.match(await sendJson(repaired), { code: 5, accepted: 1, rejected: 3 })
  t.match(await storedOf('some'), [first, last, /"eventId":"some-1","buildId":"7","big":12345678901234567890123/])
  const none = await sendFile(fileOf('{"type":"none"}\n'))
  t.match(none, { code: 5, stderr: /^ingest: 1 of 1 event was rejected: --rejected /m }, 'which names no others')
})

t.test('--make-ids generates ids, and warns of repeated runs', async (t) => {
  const file = fileOf('{"type":"made"}\n{"type":"made","n":2}\n')
  for (let run = 0; run < 2; run++) {
    t.match(await sendFile(file, '--make-ids'), {
      code: 0,
      stdout: /^sent 2 events: 2 accepted/,
      stderr: 'ingest: generated ids for 2 events: another run stores them again\n',
    })
  }
  t.match(await sendJson(file, '--make-ids'), { code: 0, accepted: 2, madeIds: 2 })
})

t.test('events before invalid JSON are stored: exit code 5', async (t) => {
  t.match(await sendFile(fileOf('a,b\n1,2\n')), { code: 5, stdout: /^$/, stderr: /^ingest: .*neither.*\n$/ })
  const [first, second] = linesOf('cut', 2)
  t.match(await sendJson(fileOf(`[${first},${second}`)), {
    code: 5,
    ok: false,
    accepted: 1,
    error: { code: 'malformed-body', message: /no end/ },
  })
})

t.test('an unreachable server: exit code 6, and advice to run it again', async (t) => {
  const args = [fileOf(linesOf('away', 1).join()), '--url', 'http://127.0.0.1:1', '--retries', '1']
  t.match(await sendFile(args[0] ?? '', ...args.slice(1)), {
    code: 6,
    stdout: /^$/,
    stderr: /^ingest: .* Events are left unsent; run it again to resume: stored events are reported as duplicates\.\n$/,
  })
  t.match(await sendJson(args[0] ?? '', ...args.slice(1), '--make-ids'), {
    code: 6,
    ok: false,
    accepted: 0,
    error: {
      code: 'connection-failed',
      message: /Events are left unsent; another run stores events without an eventId again/,
      retryable: true,
    },
  })
})

t.test('wrong credentials end the command at once: exit code 4', async (t) => {
  const file = fileOf(linesOf('keys', 1000).join('\n'))
  const wrong = `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`
  for (const INGEST_KEY of ['', wrong]) {
    const { code, stdout, stderr } = await ingest(['send', file], { env: { ...env, INGEST_KEY } })
    t.match({ code, stdout, stderr }, { code: 4, stdout: /^$/, stderr: /^ingest: .* Events are left unsent\.\n$/ })
  }
  const stdin = new PassThrough()
  stdin.write(`${linesOf('keys', 1)[0]}\n`)
  t.match(await ingest(['send', '-'], { env: { ...env, INGEST_KEY: wrong }, stdin }), { code: 4 })
  t.ok(stdin.destroyed, 'an open standard input is closed')
})

/** Calls `then` at these of the batches. */
function atBatches(wanted: readonly number[], then: () => void) {
  let batches = 0
  return () => {
    if (wanted.includes(++batches)) then()
  }
}

for (const [name, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['an unreachable server', 6],
] as const) {
  t.test(`${name} while sending: exit code ${code}, and the next run resumes`, async (t) => {
    const lines = linesOf(name, 3000)
    const args = ['send', fileOf(lines.join('\n')), '--json', '--concurrency', '2', '--retries', '1', '--url']
    const proxy = await startProxy(
      t,
      () => url,
      atBatches([12], () => {
        if (name.startsWith('SIG')) running.signal(name as NodeJS.Signals)
        else proxy.isDown = true
      }),
    )
    const running = startRun([...args, proxy.url], { env })
    const end = await running.exited
    t.match(end, { code, stderr: /[Ee]vents are left unsent; run it again to resume: .*\n$/ })
    if (code !== 6) t.match(end.stderr, `ingest: ${name}: events are left unsent`)
    const { accepted, ...result } = JSON.parse(end.stdout)
    const error = code === 6 ? 'connection-failed' : 'interrupted'
    t.match(result, { ok: false, error: { code: error, retryable: true } })
    t.ok(accepted > 0 && accepted < 3000, String(accepted))
    const again = await ingest([...args, url], { env })
    t.match(JSON.parse(again.stdout), { ok: true, events: 3000 })
    t.ok(JSON.parse(again.stdout).duplicates >= accepted)
    t.strictSame((await storedOf(name)).sort(), lines.sort())
  })
}

t.test('connections that break are retried, so that each event is stored exactly once', async (t) => {
  const proxy = await startProxy(
    t,
    () => url,
    atBatches([10, 25, 40], () => proxy.reset()),
  )
  const lines = linesOf('broken', 5000)
  const { code, stdout } = await ingest(['send', fileOf(lines.join('\n')), '--json', '--url', proxy.url], { env })
  t.match({ code, ...JSON.parse(stdout) }, { code: 0, ok: true, events: 5000, rejected: 0 })
  t.strictSame((await storedOf('broken')).sort(), lines.sort())
})

t.test('--dry-run validates like an empty store, without a server and a store', async (t) => {
  const text = [
    '{"eventId":"e-1"}',
    '{"eventId":"e-2","buildId":7}',
    '{"a":',
    '{"eventId":"e-1","n":2}',
    '{"projectId":"other","eventId":"e-3"}',
    '{"eventId":"e-4","type":"kill","n":"x"}',
  ].join('\n')
  const validate = (...args: string[]) => ingest(['send', fileOf(text), '--dry-run', '--project', projectId, ...args])
  t.match(await validate(), {
    code: 5,
    stdout: /^validated 6 events: 2 accepted, 1 duplicate, 3 rejected; /,
    stderr:
      /line 3: .*\n.*line 2, e-2: \/buildId: Expected a string\.\n.*line 5, e-3: .*project.*\n.*3 of 6 events were rejected/s,
  })
  const schemas = join(directory, 'schemas.json')
  writeFileSync(schemas, '{"kill":{"type":"object","properties":{"n":{"type":"integer"}}}}')
  const { stdout } = await validate('--schemas', schemas, '--json')
  t.match(JSON.parse(stdout), {
    ok: false,
    accepted: 1,
    duplicates: 1,
    rejected: 4,
    error: { code: 'events-rejected' },
  })
  writeFileSync(schemas, '{"kill":{"required":"n"}}')
  t.match(await validate('--schemas', schemas), {
    code: 2,
    stderr: /^ingest: \S+schemas.json: The schema for events of type "kill": #\/required expects a list of names\.\n$/,
  })
  t.match(await ingest(['send', fileOf('{"eventId":"a"}'), '--dry-run', '--project', 'p']), { code: 0, stderr: /^$/ })
})
