import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import t, { type Test } from 'tap'
import { ended, noTerminal, readStream, startIngest, startOnTerminal, startServe } from '../ingest-process.ts'
import { ingest, serveHere, startRun } from '../run-ingest.ts'
import { createKey, openServed, projectId, send, startProxy } from '../served.ts'

// find, stats, rejected and tail: a server has the store open, and is a process of its own, as two handles in one would
// deadlock
const data = join(t.testdir(), 'data')
const key = await createKey(data)
const server = await startServe(t, ['--store', data])
const remote = { INGEST_URL: server.url, INGEST_PROJECT_ID: projectId, INGEST_KEY: key }
const local = { INGEST_STORE: data, INGEST_PROJECT_ID: projectId }
const targets = { 'over HTTP': remote, 'in a store': local }

const odd = `{ "projectId":"${projectId}",\t"eventId": "a b/é",\n"n":12345678901234567890, "e":1.0E+2 }`
await send({ ...server, key }, `{"events":[{"projectId":"${projectId}","eventId":"first"},${odd}]}`)
const events = Array.from({ length: 99 }, (_, i) => ({ projectId, buildId: `b-${i % 2}` }))
for (let i = 0; i < 11; i++) {
  const batch = events.map((each, k) => ({ ...each, eventId: `${i}-${k}` }))
  await send({ ...server, key }, JSON.stringify({ events: batch }))
}
for (const build of ['b-0', 'b-2']) {
  await ingest(['publish-map', '-', '--place', '1', '--build', build], { env: remote, stdin: '{}' })
}

const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const exported = (await ingest(['export'], { env: local })).stdout.split('\n')

/** The cells of a table, which two spaces at least keep apart. */
function cellsOf(stdout: string): string[][] {
  const lines = stdout.trimEnd().split('\n')
  return lines.map((line) => line.trim().split(/ {2,}/))
}

const heading = ['PROJECT', 'EVENTS', 'BATCHES', 'BYTES', 'EVENTS/S', 'FIRST', 'LAST']
const number = /^\d[\d,.]*$/

for (const [name, env] of Object.entries(targets)) {
  t.test(`${name}, find prints the very bytes of an event, its receivedAt and its cursor`, async (t) => {
    const { code, stdout, stderr } = await ingest(['find', 'first'], { env })
    t.match({ code, stderr }, { code: 0, stderr: /^$/ })
    t.match(stdout, /^received {2}20\d\d-\S+Z\ncursor {4}[\w-]{32}\n\n\{"projectId":"game-1","eventId":"first"\}\n$/)
    for (const [eventId, line = ''] of [
      ['first', exported[0]],
      ['a b/é', exported[1]],
    ] as const) {
      const { cursor, receivedAt } = JSON.parse(line)
      const head = JSON.stringify({ ok: true, cursor, receivedAt: new Date(receivedAt).toISOString() }).slice(0, -1)
      const event = line.slice(line.indexOf('"event":'))
      t.equal((await ingest(['find', eventId, '--json'], { env })).stdout, `${head},${event}\n`)
    }
    // a server sends events as lines
    const shown = env === local ? odd : odd.replace('\n', ' ')
    t.ok((await ingest(['find', 'a b/é'], { env })).stdout.endsWith(`\n\n${shown}\n`))
    const missing = 'ingest: The project game-1 has no event First.\n'
    t.match(await ingest(['find', 'First'], { env }), { code: 3, stdout: /^$/, stderr: missing })
    t.match(await ingest(['find', 'First', '--json'], { env }), { code: 3, stdout: /"code":"event-not-found"/ })
  })

  t.test(`${name}, stats counts a project, and lists its builds`, async (t) => {
    const { code, stdout, stderr } = await ingest(['stats'], { env })
    t.match({ code, stderr }, { code: 0, stderr: /^$/ })
    const row = [projectId, '1,091', '12', /^\d+\.\d kB$/, number, time, time]
    t.match(cellsOf(stdout), [heading, row])
    t.equal(cellsOf(stdout).length, 2)
    const { projects } = JSON.parse((await ingest(['stats', '--json'], { env })).stdout)
    t.match(projects, [{ projectId, events: 1091, batches: 12 }])
    t.match(projects, [{ firstAt: time, lastAt: time, eventsPerSecond: Number, bytes: Number }])
    t.ok(projects.length === 1 && projects[0].firstAt <= projects[0].lastAt)

    t.match(cellsOf((await ingest(['stats', '--builds'], { env })).stdout), [
      ['BUILD', 'FROZEN SINCE', 'MAPS'],
      ['b-0', time, '1'],
      ['b-1', time, '0'],
      ['b-2', 'open', '1'],
    ])
    t.match(JSON.parse((await ingest(['stats', '--builds', '--json'], { env })).stdout), {
      ok: true,
      projectId,
      builds: [
        { buildId: 'b-0', maps: 1, frozenAt: time },
        { buildId: 'b-1', maps: 0, frozenAt: time },
        { buildId: 'b-2', maps: 1, frozenAt: null },
      ],
    })
  })
}

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

t.test('without a project, stats prints all projects of a store', async (t) => {
  const own = join(t.testdir(), 'own')
  const { project, keys, close } = createIngest({ store: await openLmdbStore(own) })
  await keys.create('quiet')
  await project('busy').submitBatch({ events: [{ projectId: 'busy', eventId: 'a' }] })
  await close()
  t.match(cellsOf((await ingest(['stats', '--store', own])).stdout), [
    heading,
    ['busy', '1', '1', /^\d+ B$/, number, time, time],
    ['quiet', '0', '0', '0 B', '0', 'never', 'never'],
  ])
  t.match(JSON.parse((await ingest(['stats', '--store', own, '--json'])).stdout).projects, [
    { projectId: 'busy', events: 1 },
    { projectId: 'quiet', events: 0, firstAt: null },
  ])
})

const at = '2026-11-20T17:51:00.000Z'
const eventOf = (eventId: string, members: object = {}) => ({ projectId, eventId, ...members })

t.test('rejected events are printed by cause, most events first', async (t) => {
  const { project, env } = await openServed(t, { now: () => Date.parse(at), server: 'eu-1' })
  t.equal((await ingest(['rejected'], { env })).stdout, '0 events rejected since 2026-11-20T16:51:00.000Z\n')
  t.match((await ingest(['rejected', '--since', '2026-11-20T11:00:00Z'], { env })).stdout, 'since 2026-11-20T11:00:00')
  const many = { type: 'kill\u202e', buildId: 5, placeId: {}, sessionId: {} }
  const all = [7, eventOf('a', { type: 5 }), eventOf('good'), eventOf('b', { type: 6 }), eventOf('c', many)]
  await project.submitBatch({ events: all as never[] })
  const { code, stdout, stderr } = await ingest(['rejected'], { env })
  t.match({ code, stderr }, { code: 0, stderr: '' })
  t.strictSame(stdout.split('\n').slice(1), [
    '',
    'COUNT  ISSUE                  MESSAGE              TYPE        BUILD  KEY  SERVER  FIRST                     LAST',
    `    2  invalid_type /type     Expected a string.   -           -      -    eu-1    ${at}  ${at}`,
    `    1  not_object -           Expected an object.  -           -      -    eu-1    ${at}  ${at}`,
    `    1  invalid_type /buildId  Expected a string.   kill\\u202e  -      -    eu-1    ${at}  ${at}`,
    '',
  ])
})

t.test('a long path is cut, and what moves the cursor of a terminal is escaped', async (t) => {
  const { project, env } = await openServed(t, { now: () => Date.parse(at) })
  const long = '\x1b]0;x\x07\u202e'.padEnd(50_000, 'n')
  const deep = JSON.parse(`${'{"a":'.repeat(32)}1${'}'.repeat(32)}`)
  await project.submitBatch({ events: [eventOf('a', { [long]: deep }) as never] })
  const { stdout } = await ingest(['rejected'], { env })
  t.match(stdout.split('\n')[3], `too_deep /\\u001b]0;x\\u0007\\u202e${'n'.repeat(72)}…  Expected`)
  const { groups } = JSON.parse((await ingest(['rejected', '--json'], { env })).stdout)
  t.equal(groups[0].path, `/${long.slice(0, 299)}…`)
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

  const { code, stdout } = await startTail(t, '--since', '1h', '--limit', '2').exited
  t.strictSame([code, stdout.trim().split('\n').length], [0, 2], '--limit ends it')
})

t.test('tail of a store prints events that another process stores', async (t) => {
  const running = startRun(['tail', '--since', '1h'], { env: local })
  while (!(await running.nextLine()).includes('"eventId":"10-98"'));
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
