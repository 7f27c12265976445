import { PassThrough } from 'node:stream'
import t from 'tap'
import { type Output, processIo } from '../src/io.ts'
import { formatDay, formatEventRow } from '../src/terminal/event-row.ts'
import { escapeControlCharacters, formatBytes, formatTable } from '../src/terminal/format.ts'
import { abortOnSignal } from '../src/terminal/on-signal.ts'
import { createProgressLines, type Progress, withProgress } from '../src/terminal/progress.ts'
import { createIo } from './run-ingest.ts'

t.test('sizes have one decimal and a unit', async (t) => {
  const cases: [number, string][] = [
    [0, '0 B'],
    [999, '999 B'],
    [1000, '1.0 kB'],
    [20_480, '20.5 kB'],
    [999_949, '999.9 kB'],
    [999_950, '1.0 MB'],
    [3e9, '3.0 GB'],
    [5e15, '5000.0 TB'],
  ]
  for (const [bytes, text] of cases) t.equal(formatBytes(bytes), text)
})

t.test('columns are as wide as their widest cell on the terminal; numbers are aligned to the right', async (t) => {
  const lines = [
    ['A', 'NUMBER', 'LAST'],
    ['long', '7', ''],
    ['', '12,345,678', '\u009b'],
  ]
  t.strictSame(formatTable(lines), ['A     NUMBER      LAST', 'long  7', '      12,345,678  \\u009b'])
  t.strictSame(formatTable(lines, [1]), ['A         NUMBER  LAST', 'long           7', '      12,345,678  \\u009b'])
  t.strictSame(
    formatTable([
      ['\u009b2J', 'x'],
      ['longer than it', 'y'],
    ])[0],
    '\\u009b2J        x',
  )
})

t.test('control characters are escaped as in JSON, other text is not', async (t) => {
  t.equal(escapeControlCharacters('\x1b[2J\x9b\u202e\u{e0001}\ud800'), '\\u001b[2J\\u009b\\u202e\\udb40\\udc01\\ud800')
  t.equal(escapeControlCharacters('é 日本 😀 e\u0301'), 'é 日本 😀 e\u0301')
  const json = '{"a":"\x7f\x9b\u202e\u{e0001}😀","\u2028":"\\u001b"}'
  t.notMatch(escapeControlCharacters(json), /[\p{Cc}\p{Cf}]/u)
  t.strictSame(JSON.parse(escapeControlCharacters(json)), JSON.parse(json))
})

const receivedAt = new Date(2026, 10, 20, 7, 5, 9, 50).getTime()
const row = (text: string, columns = 200, hasColors = false) =>
  formatEventRow({ cursor: '1-0', receivedAt, bytes: Buffer.from(text) }, { columns, hasColors })
const text =
  '{"projectId":"p","eventId":"e-1","type":"round.end","buildId":"2026.11.20","playerId":1234567890,"score":{"a":[1,2]}}'

t.test('a row has the time, type, build, player, and other fields', async (t) => {
  t.equal(
    row(text),
    '07:05:09.050  round.end         2026.11.20      1234567890    {"eventId":"e-1","score":{"a":[1,2]}}',
  )
  const missing = `07:05:09.050  ${'-'.padEnd(16)}  ${'-'.padEnd(14)}  ${'-'.padEnd(12)}  {"eventId":"e"}`
  t.equal(row('{"eventId":"e","type":null}'), missing)
  t.match(row('{"type":"longer than its column","buildId":"b"}'), '  longer than its column  b   ')
})

t.test('a row is no wider than the terminal, and colors do not change its text', async (t) => {
  for (const columns of [1, 10, 13, 40, 79, 80]) {
    t.equal([...row(text, columns)].length, columns)
    t.ok(row(text, columns).endsWith('…'))
    const colored = row(text, columns, true).replaceAll('\x1b', '␛')
    t.match(colored, /^␛\[2m/)
    t.equal(colored.replaceAll(/␛\[\d+m/g, ''), row(text, columns))
    t.equal(colored.match(/␛\[22m/g)?.length, 2, 'they end within the line')
  }
  const whole = row(text)
  t.equal(row(text, whole.length), whole)
  for (const columns of [19, 20]) t.equal(row('{"type":"日本語"}', columns), '07:05:09.050  日本…', 'two columns each')
  t.equal(row('{"type":"e\u0301e\u0301e\u0301"}', 17), '07:05:09.050  e\u0301e\u0301…', 'combining ones take none')
})

t.test('control characters of events are escaped', async (t) => {
  const evil = '\x1b[2J\x07\r\n\x9b31m\x7f\u202e\u2066\u2028\ud800\u{e0001}'
  const shown = row(JSON.stringify({ eventId: evil, type: evil, buildId: evil, playerId: evil, [evil]: evil }), 2000)
  t.notMatch(shown, /[\p{Cc}\p{Cf}\p{Cs}\u2028]/u)
  t.match(shown, '\\u001b[2J\\u0007\\u000d\\u000a\\u009b31m\\u007f\\u202e\\u2066\\u2028\\ud800\\udb40\\udc01')
})

t.test('days are local', async (t) => {
  t.equal(formatDay(receivedAt), '2026-11-20')
  t.equal(formatDay(new Date(2026, 0, 1).getTime() - 1), '2025-12-31')
})

const io = processIo()

for (const [signal, exitCode] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const) {
  t.test(`${signal} of this process aborts the work with its advice, if there is any`, async (t) => {
    const before = process.listenerCount(signal)
    for (const [advice, message] of [
      ['run it again', `${signal}: run it again`],
      ['', ''],
    ] as const) {
      const work = abortOnSignal(io, advice, async (abort) => {
        process.kill(process.pid, signal)
        const alive = setInterval(() => {}, 1000)
        await new Promise((resolve) => abort.addEventListener('abort', resolve))
        clearInterval(alive)
        abort.throwIfAborted()
      })
      const { failure } = await work.catch((error) => error)
      t.strictSame(failure, { exitCode, code: 'interrupted', message, retryable: true })
    }
    t.equal(process.listenerCount(signal), before)
  })
}

t.test('a second signal ends the process immediately', async (t) => {
  const { io, ends, signal, stderr } = createIo()
  const work = abortOnSignal(io, 'run it again', async (abort) => {
    for (const name of ['SIGINT', 'SIGTERM'] as const) signal(name)
    abort.throwIfAborted()
  })
  await t.rejects(work, { message: 'SIGINT: run it again' })
  t.strictSame([ends, stderr()], [[143], 'ingest: SIGTERM: run it again\n'])
  t.equal(await abortOnSignal(io, '', async ({ aborted }) => aborted), false, 'without a signal')
})

const reading = { label: 'reading', done: 10, total: null, text: '10 B', isAnnounced: false }
const hashing = { label: 'hashing', done: 500, total: 2000, text: '500 B of 2.0 kB', isAnnounced: false }
const uploading = { label: 'uploading', done: 0, total: 1500, text: '0 B of 1.5 kB', isAnnounced: true }

t.test('a log gets a line for each announced phase, and then one every 5 seconds', async (t) => {
  const written: string[] = []
  let now = 0
  const display = createProgressLines({ write: (text: unknown) => written.push(String(text)) > 0 }, () => now)
  display.show(reading)
  display.show(hashing)
  t.strictSame(written, [])
  now = 5000
  display.show(hashing)
  t.strictSame(written.splice(0), ['ingest: hashing 500 B of 2.0 kB\n'])
  now = 5001
  display.show(uploading)
  display.show({ ...uploading, done: 250, text: '250 B' })
  now = 10_000
  display.show({ ...uploading, done: 500, text: '500 B' })
  now = 10_001
  display.show({ ...uploading, done: 750, text: '750 B' })
  t.strictSame(written, ['ingest: uploading 0 B of 1.5 kB\n', 'ingest: uploading 750 B\n'])
})

/** The output for this progress on a stream that is, or is not, a terminal. */
async function shownOf(isTTY: boolean, all: readonly Progress[], quiet?: true): Promise<string> {
  const stderr = Object.assign(new PassThrough(), { isTTY, columns: 100, rows: 20, cursorTo() {}, clearLine() {} })
  await withProgress({ stderr: stderr as unknown as Output }, quiet, async (show) => all.forEach(show))
  return String(stderr.read() ?? '')
}

t.test('a terminal gets a bar, and everything else lines without control characters', async (t) => {
  const all = [reading, hashing, uploading, { ...uploading, done: 1500, text: '1.5 kB' }]
  t.equal(await shownOf(false, all), 'ingest: uploading 0 B of 1.5 kB\n')
  const bar = await shownOf(true, all)
  t.match(bar, /reading .*10 B/)
  t.match(bar, /uploading .*[█░]{30} /)
  t.equal(await shownOf(true, []), '', 'an immediate failure leaves the terminal unchanged')
  for (const isTTY of [false, true]) t.equal(await shownOf(isTTY, all, true), '', '--quiet')
})
