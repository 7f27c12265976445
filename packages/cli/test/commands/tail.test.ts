import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ended, ingestCommand, ownTerminal, startIngest, startServe } from '../ingest-process.ts'
import { readLines } from '../read-lines.ts'
import { ingest, isWrongUsage, startRun } from '../run-ingest.ts'
import { createKey, openServed, projectId, send, startProxy, unknownProject } from '../served.ts'

const { url, env, project } = await openServed(t)

const eventOf = (eventId: string, members: object = {}) => ({ projectId, eventId, ...members })
const submit = (...events: ReturnType<typeof eventOf>[]) => project.submitBatch({ events })

/** Runs `tail` in this process until a signal. */
function startTail(t: Test, ...args: string[]) {
  const running = startRun(['tail', ...args], { env })
  t.teardown(async () => {
    running.signal('SIGTERM')
    await running.exited
  })
  return { ...running, nextId: async () => JSON.parse(await running.nextLine()).event.eventId as string }
}

await submit(eventOf('old', { type: 'kill', buildId: 'b1' }), eventOf('older', { type: 'join', buildId: 'b2' }))

t.test('from a server: stored events since a time come first, then new ones, as NDJSON in a pipe', async (t) => {
  const tail = startTail(t, '--since', '1h', '--type', 'kill')
  const line = await tail.nextLine()
  t.match(JSON.parse(line), { cursor: /^[\w-]{32}$/, receivedAt: Number, event: { eventId: 'old' } })
  t.strictSame(Object.keys(JSON.parse(line)), ['cursor', 'receivedAt', 'event'])
  await submit(eventOf('ignored', { type: 'join' }), eventOf('new-1', { type: 'kill', buildId: 'b2' }))
  t.equal(await tail.nextId(), 'new-1')
  await submit(eventOf('new-2', { type: 'kill' }))
  t.equal(await tail.nextId(), 'new-2')
  tail.signal('SIGINT')
  t.match(await tail.exited, { code: 130, stderr: /^$/ }, 'SIGINT ends it without a message')
})

t.test('from a store: the built command prints events that another process stores, until SIGINT', async (t) => {
  const data = t.testdir()
  const key = await createKey(data)
  const server = await startServe(t, ['--store', data])
  t.equal((await send({ ...server, key }, ['a'])).status, 202)
  const child = startIngest(['tail', '--store', data, '--project', projectId, '--since', '1h'])
  t.teardown(() => void child.kill('SIGKILL'))
  const exited = ended(child)
  const lines = readLines(child.stdout)
  const nextId = async () => JSON.parse(await lines.next()).event.eventId
  t.equal(await nextId(), 'a')
  t.equal((await send({ ...server, key }, ['b'])).status, 202)
  t.equal(await nextId(), 'b')
  child.kill('SIGINT')
  t.match(await exited, { code: 130, signal: null, stderr: /^$/ })
})

t.test('--limit ends it after that many events', async (t) => {
  const tail = startTail(t, '--since', '1h', '--limit', '2')
  const { code, stdout } = await tail.exited
  t.equal(code, 0)
  t.equal(stdout.trim().split('\n').length, 2)
})

t.test('by default, it prints only new events', async (t) => {
  const tail = startTail(t, '--build', 'now')
  let sent = 0
  let isSeen = false
  const first = tail.nextId().finally(() => {
    isSeen = true
  })
  while (!isSeen) {
    await submit(eventOf(`now ${sent++}`, { buildId: 'now' }))
    // a memory store resolves without leaving the microtask queue
    await new Promise(setImmediate)
  }
  t.match(await first, /^now \d+$/)
  tail.signal('SIGTERM')
  t.match(await tail.exited, { code: 143, stderr: /^$/ })
})

t.test('--after prints exactly the events after a cursor, until its reader closes the pipe', async (t) => {
  const { stdout } = await ingest(['export', '--limit', '1'], { env })
  const { cursor } = JSON.parse(stdout)
  const child = startIngest(['tail', '--after', cursor, '--build', 'b2'], { env })
  const reader = ended(child, 1)
  const stop = new AbortController()
  const writing = (async () => {
    for (let i = 0; !stop.signal.aborted; i++) {
      await submit(eventOf(`more ${i}`, { buildId: 'b2' }))
      await new Promise(setImmediate)
    }
  })()
  const { code, stdout: seen, stderr } = await reader
  stop.abort()
  await writing
  t.match({ code, stderr }, { code: 0, stderr: /^$/ })
  t.match(seen, /"eventId":"older"/)
})

t.test('an unreachable server is reported once, and tail resumes when it is reachable again', async (t) => {
  const proxy = await startProxy(t, () => url)
  for (const isDownAtFirst of [false, true]) {
    proxy.isDown = isDownAtFirst
    const after = isDownAtFirst ? [] : ['--since', '1h']
    const tail = startTail(t, '--url', proxy.url, '--type', 'lost', ...after)
    if (!isDownAtFirst) {
      await submit(eventOf('before', { type: 'lost' }))
      t.equal(await tail.nextId(), 'before')
      proxy.isDown = true
      proxy.reset()
    }
    t.match(await tail.nextError(), /^ingest: waiting for the server: /)
    proxy.isDown = false
    t.equal(await tail.nextError(), 'ingest: the server is reachable again')
    await submit(eventOf(`after ${isDownAtFirst}`, { type: 'lost' }))
    t.equal(await tail.nextId(), `after ${isDownAtFirst}`)
    tail.signal('SIGTERM')
    t.match(await tail.exited, { code: 143 })
  }
})

t.test('an unknown project in a store: exit code 3', async (t) => {
  const data = join(t.testdir(), 'data')
  await createKey(data)
  const unknown = ['tail', '--store', data, '--project', 'gmae-1']
  t.strictSame(await ingest(unknown), { code: 3, signal: null, stdout: '', stderr: unknownProject })
})

t.test('invalid options and credentials fail immediately', async (t) => {
  await isWrongUsage(t, ['tail', '--project', projectId], /name a server with --url/)
  await isWrongUsage(t, ['tail', '--since', 'yesterday'], /--since expects a duration/, { env })
  await isWrongUsage(t, ['tail', '--since', '1h', '--after', '1-0'], /cannot be used with/, { env })
  await isWrongUsage(t, ['tail', '--after', 'nonsense'], /cursor is not an event cursor/, { env })
  await isWrongUsage(t, ['tail', '--type', ''], /non-empty/, { env })
  await isWrongUsage(t, ['tail', '--store', t.testdir(), '--project', projectId], /There is no store/)
  t.match(await ingest(['tail'], { env: { ...env, INGEST_KEY: 'ik_wrong' } }), { code: 4, stdout: /^$/ })
})

t.test('the first request is retried after 503 and 429, but not after 401', async (t) => {
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
  t.match(await ingest(['tail', '--url', `http://127.0.0.1:${port}`], { env }), {
    code: 4,
    stdout: /^$/,
    stderr: /^ingest: waiting for the server: It is overloaded\.\ningest: The key is not active .*\n$/,
  })
  t.strictSame(codes, [])
})

t.test('SIGINT ends it while no server listens', async (t) => {
  const tail = startTail(t, '--url', 'http://127.0.0.1:9')
  t.match(await tail.nextError(), /^ingest: waiting for the server: /)
  tail.signal('SIGINT')
  t.match(await tail.exited, { code: 130, stdout: /^$/ })
})

t.test('on a terminal each event is one row, in color unless NO_COLOR is set', async (t) => {
  await submit(eventOf('shown', { type: 'shown', buildId: 'b\u009b9', playerId: 7, text: 'x'.repeat(300) }))
  for (const [more, extra, pattern] of [
    [
      [],
      {},
      /^␛\[2m\d\d:\d\d:\d\d\.\d{3} {2}␛\[22m␛\[1mshown {11}␛\[22m {2}b\\u009b9 {8}7 {13}\{"eventId":"shown",.*…$/,
    ],
    [[], { NO_COLOR: '1' }, /^\d\d:\d\d:\d\d\.\d{3} {2}shown {13}b\\u009b9 {8}7 {13}\{"eventId":"shown",.*…$/],
    [['--json'], {}, /^\{"cursor":"[^"]+","receivedAt":\d+,"event":\{.*"buildId":"b\\u009b9".*\}\}$/],
  ] as const) {
    const args = ['tail', '--since', '1h', '--type', 'shown', ...more]
    const running = startRun(args, { env: { ...env, ...extra }, isTerminal: true })
    const line = (await running.nextLine()).replaceAll('\x1b', '␛')
    t.match(line, pattern)
    if (more.length === 0) t.equal(line.replaceAll(/␛\[\d+m/g, '').length, 100)
    running.signal('SIGTERM')
    await running.exited
  }
})

const noTerminal = spawnSync('script', ['--version']).error
  ? 'script(1), which makes terminals, is not installed'
  : false
t.test('on a real terminal, rows have its width', { skip: noTerminal }, async (t) => {
  await submit(eventOf('wide', { type: 'wide', text: 'x'.repeat(300) }))
  const quoted = ingestCommand(['tail', '--since', '1h', '--type', 'wide']).map((word) => `'${word}'`)
  const child = spawn('script', ['-qec', `stty cols 70; ${quoted.join(' ')}`, '/dev/null'], {
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { ...ownTerminal(), ...env },
  })
  t.teardown(() => void child.kill('SIGKILL'))
  const exited = once(child, 'close')
  const line = (await readLines(child.stdout).next()).replaceAll('\x1b', '␛')
  t.equal(line.replaceAll(/␛\[\d+m|\r/g, '').length, 70)
  t.match(line, /^␛\[2m/)
  child.kill('SIGTERM')
  await exited
})
