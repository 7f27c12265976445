import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ended, noTerminal, readStream, startIngest, startOnTerminal, startServe } from '../ingest-process.ts'
import { ingest, serveHere, startRun } from '../run-ingest.ts'
import { createKey, openServed, projectId, send, startProxy } from '../served.ts'

// servers on the store run in processes of their own, because two handles in one process would deadlock
const data = join(t.testdir(), 'data')
const key = await createKey(data)
const server = await startServe(t, ['--store', data])
const local = { INGEST_STORE: data, INGEST_PROJECT_ID: projectId }
const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

t.test('on a terminal, find escapes control characters of an event', async (t) => {
  const evil = `{"projectId":"${projectId}",\t"eventId":"evil",\n"text":"\u009b2J\u202e"}`
  await send({ ...server, key }, `{"events":[${evil}]}`)
  for (const [flags, shown] of [
    [[], '{"projectId":"game-1",\t"eventId":"evil",\n"text":"\\u009b2J\\u202e"}\n'],
    [['--json'], '{"projectId":"game-1",\t"eventId":"evil", "text":"\\u009b2J\\u202e"}}\n'],
  ] as const) {
    const { stdout } = await ingest(['find', 'evil', ...flags], { env: local, isTerminal: true })
    t.ok(stdout.endsWith(shown), JSON.stringify(stdout))
  }
})

const at = '2026-11-20T17:51:00.000Z'
const eventOf = (eventId: string, members: object = {}) => ({ projectId, eventId, ...members })

t.test('an event that is not an object is a cause of its own', async (t) => {
  const { project, env } = await openServed(t, { now: () => Date.parse(at) })
  await project.submitBatch({ events: [7] as never[] })
  const row = `    1  not_object -  Expected an object.  -     -      -    -          ${at}  ${at}`
  t.equal((await ingest(['rejected'], { env })).stdout.split('\n')[3], row)
})

t.test('rejected --json has the text of samples if the server keeps them', async (t) => {
  const own = join(t.testdir(), 'own')
  const ownKey = await createKey(own)
  for (const keep of [true, false]) {
    const { url, signal, exited } = await serveHere(t, ['--store', own, ...(keep ? ['--keep-rejected'] : [])])
    const invalid = `{"projectId":"${projectId}", "eventId":"${keep}","type":[5 ]}`
    await send({ url, key: ownKey }, `{"events":[${invalid}]}`)
    const env = { INGEST_URL: url, INGEST_PROJECT_ID: projectId, INGEST_KEY: ownKey }
    const issue = { code: 'invalid_type', path: '/type', message: 'Expected a string.' }
    const printed = JSON.parse((await ingest(['rejected', '--json'], { env })).stdout)
    t.match(printed, { ok: true, projectId, groups: [{ ...issue, keyId: ownKey.slice(3, 11), lastAt: time }] })
    const [sample] = printed.groups[0].samples
    t.match(sample, { receivedAt: time, eventId: `${keep}`, issues: [issue] })
    t.equal(sample.event, keep ? invalid : undefined)
    signal('SIGTERM')
    await exited
  }
})

const { url, env, project } = await openServed(t)
const submit = (...events: ReturnType<typeof eventOf>[]) => project.submitBatch({ events })
await submit(eventOf('old', { type: 'kill', buildId: 'b1' }), eventOf('older', { type: 'join', buildId: 'b2' }))

/** Runs `tail` in this process until a signal. */
function startTail(t: Test, ...args: string[]) {
  const running = startRun(['tail', ...args], { env })
  t.teardown(async () => {
    running.signal('SIGTERM')
    await running.exited
  })
  return { ...running, nextId: async () => JSON.parse(await running.nextLine()).event.eventId as string }
}

t.test('tail prints stored events since a time, then new ones, as NDJSON in a pipe', async (t) => {
  const tail = startTail(t, '--since', '1h', '--type', 'kill')
  const line = JSON.parse(await tail.nextLine())
  t.match(line, { cursor: /^[\w-]{32}$/, receivedAt: Number, event: { eventId: 'old' } })
  t.strictSame(Object.keys(line), ['cursor', 'receivedAt', 'event'])
  await submit(eventOf('ignored', { type: 'join' }), eventOf('new-1', { type: 'kill', buildId: 'b2' }))
  t.equal(await tail.nextId(), 'new-1')
  await submit(eventOf('new-2', { type: 'kill' }))
  t.equal(await tail.nextId(), 'new-2')
  tail.signal('SIGINT')
  t.match(await tail.exited, { code: 130, stderr: /^$/ }, 'SIGINT ends it without a message')
})

t.test('tail of a store prints events that another process stores', async (t) => {
  const running = startRun(['tail', '--since', '1h'], { env: local })
  while (!(await running.nextLine()).includes('"eventId":"evil"'));
  await send({ ...server, key }, ['another'])
  while (!(await running.nextLine()).includes('"eventId":"another"'));
  running.signal('SIGINT')
  t.match(await running.exited, { code: 130, stderr: /^$/ })
})

t.test('by default, tail prints only new events', async (t) => {
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

t.test('tail --after prints exactly the events after a cursor, until its reader closes the pipe', async (t) => {
  const { cursor } = JSON.parse((await ingest(['export', '--limit', '1'], { env })).stdout)
  const child = startIngest(['tail', '--after', cursor, '--build', 'b2'], { env })
  const reader = ended(child, 1)
  const stop = new AbortController()
  const writing = (async () => {
    for (let i = 0; !stop.signal.aborted; i++) {
      await submit(eventOf(`more ${i}`, { buildId: 'b2' }))
      await new Promise(setImmediate)
    }
  })()
  const { code, stdout, stderr } = await reader
  stop.abort()
  await writing
  t.match({ code, stderr }, { code: 0, stderr: /^$/ })
  t.match(stdout, /"eventId":"older"/)
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
  const tail = startTail(t, '--url', 'http://127.0.0.1:9')
  t.match(await tail.nextError(), /^ingest: waiting for the server: /)
  tail.signal('SIGINT')
  t.match(await tail.exited, { code: 130, stdout: /^$/ }, 'SIGINT ends it meanwhile')
})

t.test('the first request of tail is retried after 503 and 429, but not after 401', async (t) => {
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

t.test('on a terminal, tail prints each event as one row, in color unless NO_COLOR is set', async (t) => {
  await submit(eventOf('shown', { type: 'shown', buildId: 'b\u009b9', playerId: 7, text: 'x'.repeat(300) }))
  const clock = /\d\d:\d\d:\d\d\.\d{3} {2}/.source
  const rest = ' {2}b\\\\u009b9 {8}7 {13}\\{"eventId":"shown",.*…$'
  for (const [more, extra, pattern] of [
    [[], {}, new RegExp(`^␛\\[2m${clock}␛\\[22m␛\\[1mshown {11}␛\\[22m${rest}`)],
    [[], { NO_COLOR: '1' }, new RegExp(`^${clock}shown {11}${rest}`)],
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

t.test('on a real terminal, rows have its width', { skip: noTerminal }, async (t) => {
  await submit(eventOf('wide', { type: 'wide', text: 'x'.repeat(300) }))
  const child = startOnTerminal(['tail', '--since', '1h', '--type', 'wide'], { env }, 'stty cols 70')
  t.teardown(() => void child.kill('SIGKILL'))
  const exited = once(child, 'close')
  const line = (await readStream(child.stdout).next()).replaceAll('\x1b', '␛')
  t.equal(line.replaceAll(/␛\[\d+m|\r/g, '').length, 70)
  t.match(line, /^␛\[2m/)
  child.kill('SIGTERM')
  await exited
})
