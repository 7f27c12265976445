import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { ended, ingestCommand, ownTerminal, startIngest, startServe } from '../ingest-process.ts'
import { ingest, isWrongUse } from '../run-ingest.ts'
import { createKey, exportedIds, projectId, send } from '../sender.ts'

const data = t.testdir()
const key = await createKey(data)
const server = await startServe(t, ['--data', data, '--rate-limit', 'off'])
const sender = { ...server, key }
const project = ['--project', projectId]
const served = ['--url', server.url, ...project]
const env = { INGEST_KEY: key }

const eventOf = (eventId: string, members: object = {}) => ({ projectId, eventId, ...members })
const submit = (...events: object[]) => send(sender, JSON.stringify({ events }))

/** Reads a stream line by line, each once. */
function linesOf(stream: Readable) {
  let text = ''
  let isOver = false
  let wake = () => {}
  stream.on('data', (chunk) => {
    text += chunk
    wake()
  })
  stream.on('close', () => {
    isOver = true
    wake()
  })
  return {
    async next(): Promise<string> {
      for (;;) {
        const end = text.indexOf('\n')
        if (end !== -1) {
          const line = text.slice(0, end)
          text = text.slice(end + 1)
          return line
        }
        if (isOver) throw new Error(`There are no more lines: ${JSON.stringify(text)}`)
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
    },
  }
}

function startTail(t: Test, args: readonly string[]) {
  const child = startIngest(['tail', ...args], { env })
  t.teardown(() => void child.kill('SIGKILL'))
  const exited = ended(child)
  const lines = linesOf(child.stdout)
  return {
    child,
    exited,
    errors: linesOf(child.stderr),
    id: async () => JSON.parse(await lines.next()).event.eventId as string,
    line: () => lines.next(),
  }
}

await submit(eventOf('old', { type: 'kill', buildId: 'b1' }), eventOf('older', { type: 'join', buildId: 'b2' }))

for (const [name, target] of [
  ['a server', served],
  ['a store', ['--data', data, ...project]],
] as const) {
  t.test(
    `from ${name}, what is there since a time comes first, and then what comes, as NDJSON in a pipe`,
    async (t) => {
      const tail = startTail(t, [...target, '--since', '1h', '--type', 'kill'])
      const line = await tail.line()
      t.match(JSON.parse(line), { cursor: /^[\w-]{32}$/, receivedAt: Number, event: { eventId: 'old' } })
      t.strictSame(Object.keys(JSON.parse(line)), ['cursor', 'receivedAt', 'event'])
      const ids = [`1 for ${name}`, `2 for ${name}`]
      await submit(eventOf(`no ${name}`, { type: 'join' }), eventOf(ids[0] ?? '', { type: 'kill', buildId: 'b2' }))
      t.equal(await tail.id(), name === 'a store' ? '1 for a server' : ids[0])
      if (name === 'a store') t.strictSame([await tail.id(), await tail.id()], ['2 for a server', ids[0]])
      await submit(eventOf(ids[1] ?? '', { type: 'kill' }))
      t.equal(await tail.id(), ids[1])
      tail.child.kill('SIGINT')
      t.match(await tail.exited, { code: 130, signal: null, stderr: /^$/ }, 'and SIGINT ends it without a word')
    },
  )
}

t.test('without a beginning, only what comes from now on', async (t) => {
  const tail = startTail(t, [...served, '--build', 'now'])
  let sent = 0
  let isSeen = false
  const first = tail.id().finally(() => {
    isSeen = true
  })
  while (!isSeen) await submit(eventOf(`now ${sent++}`, { buildId: 'now' }))
  t.match(await first, /^now \d+$/)
  tail.child.kill('SIGTERM')
  t.match(await tail.exited, { code: 143, stderr: /^$/ })
})

t.test('behind a cursor, exactly what came after it, until its reader goes away', async (t) => {
  const { stdout } = await ingest(['export', '--data', data, ...project, '--limit', '1'])
  const { cursor } = JSON.parse(stdout)
  const child = startIngest(['tail', ...served, '--after', cursor, '--build', 'b2'], { env })
  const reader = ended(child, 1)
  const stop = new AbortController()
  const writing = (async () => {
    for (let i = 0; !stop.signal.aborted; i++) await submit(eventOf(`more ${i}`, { buildId: 'b2' }))
  })()
  const { code, stdout: seen, stderr } = await reader
  stop.abort()
  await writing
  t.match({ code, stderr }, { code: 0, stderr: /^$/ })
  t.match(seen, /"eventId":"older"/)
})

t.test('when the server goes away it says so once, and goes on when it is back', async (t) => {
  const own = t.testdir()
  const key = await createKey(own)
  const first = await startServe(t, ['--data', own])
  const child = startIngest(['tail', '--url', first.url, ...project, '--since', '1h'], { env: { INGEST_KEY: key } })
  t.teardown(() => void child.kill('SIGKILL'))
  const [lines, errors] = [linesOf(child.stdout), linesOf(child.stderr)]
  await send({ ...first, key }, ['a'])
  t.match(await lines.next(), /"eventId":"a"/)
  first.signal('SIGKILL')
  await first.exited
  t.match(await errors.next(), /^ingest: waiting for the server: /)
  const second = await startServe(t, ['--data', own, '--port', String(first.port)])
  t.equal(await errors.next(), 'ingest: the server is back')
  await send({ ...second, key }, ['b'])
  t.match(await lines.next(), /"eventId":"b"/)
  t.strictSame(await exportedIds(own), ['a', 'b'])
})

t.test('what cannot work is refused at once', async (t) => {
  await isWrongUse(t, ['tail', ...project], /missing --url <url>/)
  await isWrongUse(t, ['tail', ...served, '--since', 'yesterday'], /--since is a duration/, { env })
  await isWrongUse(t, ['tail', ...served, '--since', '1h', '--after', '1-0'], /cannot be used with/, { env })
  await isWrongUse(t, ['tail', ...served, '--after', 'nonsense'], /cursor is not one/, { env })
  await isWrongUse(t, ['tail', ...served, '--type', ''], /not empty/, { env })
  await isWrongUse(t, ['tail', '--data', t.testdir(), ...project], /There is no store/)
  t.match(await ingest(['tail', ...served], { env: { INGEST_KEY: 'ik_wrong' } }), { code: 4, stdout: /^$/ })
})

t.test('a server that is not there to begin with is waited for', async (t) => {
  const own = t.testdir()
  const key = await createKey(own)
  const first = await startServe(t, ['--data', own])
  first.signal('SIGKILL')
  await first.exited
  const child = startIngest(['tail', '--url', first.url, ...project], { env: { INGEST_KEY: key } })
  t.teardown(() => void child.kill('SIGKILL'))
  const [lines, errors] = [linesOf(child.stdout), linesOf(child.stderr)]
  t.match(await errors.next(), /^ingest: waiting for the server: /)
  const second = await startServe(t, ['--data', own, '--port', String(first.port)])
  t.equal(await errors.next(), 'ingest: the server is back')
  await send({ ...second, key }, ['a'])
  t.match(await lines.next(), /"eventId":"a"/)
})

t.test('the first request is sent again after 503 and 429, and a refusal is none to wait for', async (t) => {
  const codes = [503, 429]
  const limited = createServer((_, res) => {
    const status = codes.shift() ?? 401
    res.writeHead(status, { 'Content-Type': 'application/problem+json', 'Retry-After': '1' })
    const code = { 503: 'overloaded', 429: 'rate-limited' }[status] ?? 'unauthorized'
    res.end(JSON.stringify({ status, code, detail: `It is ${code}.`, retryable: status !== 401 }))
  }).listen(0, '127.0.0.1')
  t.teardown(() => void limited.close())
  await once(limited, 'listening')
  const { port } = limited.address() as AddressInfo
  t.match(await ingest(['tail', '--url', `http://127.0.0.1:${port}`, ...project], { env }), {
    code: 4,
    stdout: /^$/,
    stderr: /^ingest: waiting for the server: It is overloaded\.\ningest: This is no active key .*\n$/,
  })
  t.strictSame(codes, [])
})

t.test('SIGINT ends waiting for a server that never comes', async (t) => {
  const child = startIngest(['tail', '--url', 'http://127.0.0.1:9', ...project], { env })
  t.teardown(() => void child.kill('SIGKILL'))
  const exited = ended(child)
  t.match(await linesOf(child.stderr).next(), /^ingest: waiting for the server: No response from /)
  child.kill('SIGINT')
  t.match(await exited, { code: 130, stdout: /^$/ })
})

const noTerminal = spawnSync('script', ['--version']).error ? 'no script(1) here, which makes terminals' : false
t.test(
  'on a terminal an event is a line for people, with colours unless they are not wanted',
  { skip: noTerminal },
  async (t) => {
    await submit(eventOf('shown', { type: 'shown', buildId: 'b\u009b9', playerId: 7, text: 'x'.repeat(300) }))
    const command = ingestCommand(['tail', ...served, '--since', '1h', '--type', 'shown'])
    for (const [more, extra, pattern] of [
      [
        [],
        {},
        /^␛\[2m\d\d:\d\d:\d\d\.\d{3} {2}␛\[22m␛\[1mshown {11}␛\[22m {2}b\\u009b9 {8}7 {13}\{"eventId":"shown",.*…\r$/,
      ],
      [[], { NO_COLOR: '1' }, /^\d\d:\d\d:\d\d\.\d{3} {2}shown {13}b\\u009b9 {8}7 {13}\{"eventId":"shown",.*…\r$/],
      [['--json'], {}, /^\{"cursor":"[^"]+","receivedAt":\d+,"event":\{.*"buildId":"b\\u009b9".*\}\}\r$/],
    ] as const) {
      const quoted = [...command, ...more].map((word) => `'${word}'`).join(' ')
      const child = spawn('script', ['-qec', `stty cols 100; ${quoted}`, '/dev/null'], {
        stdio: ['ignore', 'pipe', 'ignore'],
        env: { ...ownTerminal(), ...env, ...extra },
      })
      t.teardown(() => void child.kill('SIGKILL'))
      const exited = once(child, 'close')
      const line = (await linesOf(child.stdout).next()).replaceAll('\x1b', '␛')
      t.match(line, pattern)
      if (more.length === 0) t.ok(line.replaceAll(/␛\[\d+m|\r/g, '').length === 100)
      child.kill('SIGTERM')
      await exited
    }
  },
)
