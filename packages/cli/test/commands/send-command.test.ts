import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ended, ingestCommand, ownEnvironment, startServe } from '../ingest-process.ts'
import { ingest, isWrongUse } from '../run-ingest.ts'
import { createKey, exportedEvents, linesOf, projectId } from '../sender.ts'

const directory = t.testdir()
const data = join(directory, 'data')
const key = await createKey(data)
const server = await startServe(t, ['--data', data, '--rate-limit', 'off'])
const env = { INGEST_URL: server.url, INGEST_PROJECT_ID: projectId, INGEST_KEY: key }
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

/** What is stored of the events with such a name, exactly as it was sent. */
async function storedOf(name: string): Promise<string[]> {
  const events = await exportedEvents(data)
  return events.filter((event) => JSON.parse(event).eventId.startsWith(`${name}-`))
}

t.test('a file is sent, exactly as it stands there, and again all of it is duplicates', async (t) => {
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
  t.strictSame(await storedOf('whole'), lines, 'and in the order of the file, as one batch was sent at a time')
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

t.test('an array is sent as well, and standard input', async (t) => {
  const lines = linesOf('array', 120)
  t.match(await sendJson(fileOf(`\n[ ${lines.join(' ,\n')}\n]`)), { code: 0, accepted: 120 })
  t.strictSame((await storedOf('array')).sort(), [...lines].sort())
  const child = spawn('sh', ['-c', '"$0" "$@" < "$EVENTS"', ...ingestCommand(['send', '-', '--json'])], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...ownEnvironment(), ...env, EVENTS: fileOf(linesOf('stdin', 3).join('\n')) },
  })
  const { code, stdout } = await ended(child)
  t.match({ code, ...JSON.parse(stdout) }, { code: 0, accepted: 3 })
})

t.test('what comes through a pipe goes straight into a store as well', async (t) => {
  const env = { ...ownEnvironment(), INGEST_DATA: data, INGEST_PROJECT_ID: projectId }
  const [command = '', ...rest] = ingestCommand(['send', '-', '--json'])
  const child = spawn(command, rest, { stdio: ['pipe', 'pipe', 'inherit'], env })
  child.stdin.end(linesOf('direct', 3).join('\n'))
  const [stdout] = await once(child.stdout, 'data')
  t.match(JSON.parse(String(stdout)), { ok: true, accepted: 3 })
})

t.test('what comes through a slow pipe does not wait for a full batch', async (t) => {
  const [command = '', ...rest] = ingestCommand(['send', '-', '--json'])
  const child = spawn(command, rest, { stdio: ['pipe', 'pipe', 'inherit'], env: { ...ownEnvironment(), ...env } })
  const [line] = linesOf('pipe', 1)
  child.stdin.write(`${line}\n`)
  while ((await storedOf('pipe')).length === 0);
  child.stdin.end()
  const [stdout] = await once(child.stdout, 'data')
  t.match(JSON.parse(String(stdout)), { ok: true, accepted: 1 })
})

t.test('rejected events are told, keep nothing out, and are exit 5', async (t) => {
  const [first = '', , , , last = ''] = linesOf('some', 5)
  const faulty = [
    '{"eventId":"some-1","buildId":7,"big":12345678901234567890123}',
    '{"type":"no id"}',
    '{"eventId":"some-3","projectId":"other"}',
  ]
  const file = fileOf([first, ...faulty, last, '{"a":'].join('\n'))
  t.match(await sendFile(file), {
    code: 5,
    stdout: /^sent 6 events: 2 accepted, 0 duplicates, 4 rejected; /,
    stderr:
      /^(ingest: line \d.*\n){4}ingest: 4 of 6 events were rejected, and all others are stored: --rejected <file> keeps them.*; without an eventId: 1, which --make-ids would store.*\n$/,
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
    error: { code: 'events-rejected', message: /they are in .*rejected/, retryable: false },
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
})

t.test('where all events are rejected, nothing is said of others', async (t) => {
  const { code, stderr } = await sendFile(fileOf('{"type":"none"}\n'))
  t.equal(code, 5)
  t.match(stderr, /^ingest: 1 of 1 event was rejected: --rejected /m)
})

t.test('ids are made when that is asked for, and it is said what that means', async (t) => {
  const file = fileOf('{"type":"made"}\n{"type":"made","n":2}\n')
  for (let run = 0; run < 2; run++) {
    t.match(await sendFile(file, '--make-ids'), {
      code: 0,
      stdout: /^sent 2 events: 2 accepted/,
      stderr: 'ingest: ids were made for 2 events: running this again stores them again\n',
    })
  }
  t.match(await sendJson(file, '--make-ids'), { code: 0, accepted: 2, madeIds: 2 })
})

t.test('an export can be sent into another store', async (t) => {
  const lines = linesOf('moved', 150)
  await sendFile(fileOf(lines.join('\n')))
  const { stdout } = await ingest(['export', '--data', data, '--project', projectId])
  const other = t.testdir()
  await createKey(other)
  const settings = { env: { INGEST_DATA: other, INGEST_PROJECT_ID: projectId } }
  const args = ['send', fileOf(stdout), '--concurrency', '1', '--json']
  const moved = await ingest(args, settings)
  t.match({ code: moved.code, ...JSON.parse(moved.stdout) }, { code: 0, ok: true, rejected: 0 })
  const events = await exportedEvents(data)
  t.strictSame(await exportedEvents(other), events, 'with --data it is stored without a server')
  t.match(JSON.parse((await ingest(args, settings)).stdout), { accepted: 0, duplicates: events.length })
})

t.test('what is not JSON is exit 5, and what stands before is stored', async (t) => {
  t.match(await sendFile(fileOf('a,b\n1,2\n')), { code: 5, stdout: /^$/, stderr: /^ingest: .*neither.*\n$/ })
  const [first, second] = linesOf('cut', 2)
  t.match(await sendJson(fileOf(`[${first},${second}`)), {
    code: 5,
    ok: false,
    accepted: 1,
    error: { code: 'malformed-body', message: /no end/ },
  })
})

t.test('wrong use', async (t) => {
  const file = fileOf(linesOf('wrong', 1).join())
  const settings = { env }
  await isWrongUse(t, ['send'], /missing <file>/, settings)
  await isWrongUse(t, ['send', file, '--project', 'p'], /missing --url <url> \(or INGEST_URL\) or --data/)
  await isWrongUse(t, ['send', join(directory, 'none')], /cannot be read/, settings)
  await isWrongUse(t, ['send', directory], /is a directory/, settings)
  await isWrongUse(t, ['send', file, '--rejected', file], /is what is read/, settings)
  await isWrongUse(t, ['send', file, '--rejected', join(directory, 'none', 'x')], /cannot be written/, settings)
  await isWrongUse(t, ['send', file, '--concurrency', '65'], /whole number from 1 to 64/, settings)
  t.match(await sendJson(file, '--concurrency', 'x'), { code: 2, ok: false, error: { code: 'invalid-argument' } })
  t.strictSame(await storedOf('wrong'), [])
})

t.test('credentials: exit 4, at once', async (t) => {
  const file = fileOf(linesOf('keys', 1000).join('\n'))
  const wrong = `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`
  for (const INGEST_KEY of ['', wrong]) {
    const { code, stdout, stderr } = await ingest(['send', file], { env: { ...env, INGEST_KEY } })
    t.match({ code, stdout, stderr }, { code: 4, stdout: /^$/, stderr: /^ingest: .*\n$/ })
  }
  // while standard input stays open
  const [command = '', ...rest] = ingestCommand(['send', '-'])
  const child = spawn(command, rest, {
    stdio: ['pipe', 'ignore', 'ignore'],
    env: { ...ownEnvironment(), ...env, INGEST_KEY: wrong },
  })
  child.stdin.on('error', () => {}).write(`${linesOf('keys', 1)[0]}\n`)
  t.strictSame(await once(child, 'exit'), [4, null])
})

t.test('nobody there: exit 6, and it says to run it again', async (t) => {
  const args = [fileOf(linesOf('away', 1).join()), '--url', 'http://127.0.0.1:1', '--retries', '1']
  t.match(await sendFile(args[0] ?? '', ...args.slice(1)), {
    code: 6,
    stdout: /^$/,
    stderr: /^ingest: .* Run it again, and it goes on: what is stored already counts as a duplicate\.\n$/,
  })
  t.match(await sendJson(args[0] ?? '', ...args.slice(1), '--make-ids'), {
    code: 6,
    ok: false,
    accepted: 0,
    error: { code: 'connection-failed', message: /Run again, it would store again/, retryable: true },
  })
})
