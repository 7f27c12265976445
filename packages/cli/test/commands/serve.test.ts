import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, rmSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { ingestCommand, ownTerminal, type ServeProcess, startServe } from '../ingest-process.ts'
import { ingest, isWrongUsage, serveHere, startRun } from '../run-ingest.ts'
import { batchOf, createKey, exportedIds, idsOf, projectId, type Sender, type Sent, send } from '../served.ts'

/** A store with a key; opening one costs more than most tests, so tests share it. */
const data = t.testdir()
const key = await createKey(data)

/** Runs `ingest serve` in this process. */
async function open(t: Test, ...args: string[]) {
  const server = await serveHere(t, ['--store', data, ...args])
  return { server, sender: { url: server.url, key } }
}

t.test('it prints one line when it accepts requests, and logs JSON lines to stderr', async (t) => {
  const { server, sender } = await open(t)
  t.equal(server.stdout(), `listening on http://127.0.0.1:${server.port}\n`)
  t.equal((await fetch(`${server.url}/readyz`)).status, 200)
  t.match(await send(sender, ['a', 'b', 'a']), { status: 202, body: { accepted: 2, duplicates: 1, rejected: [] } })
  const usual = await send(sender, ['b', 'c', ''])
  t.match(usual, { status: 202, body: { accepted: 1, duplicates: 1, rejected: [{ index: 2 }] } })
  t.equal(
    usual.headers.get('RateLimit-Policy'),
    '"requests";q=200;qu="requests";w=2, "events";q=100000;qu="events";w=5, "batch-bytes";q=51200000;qu="content-bytes";w=5',
    'rate limits are on by default',
  )
  t.match(usual.headers.get('RateLimit'), /"requests";r=\d+;t=\d+, "events";r=\d+;t=\d+/)
  const published = await publish(sender, [])
  t.equal(
    published.headers.get('RateLimit-Policy'),
    '"map-requests";q=1000;qu="requests";w=10, "map-bytes";q=536870912;qu="content-bytes";w=16',
  )
  await t.test('a port in use: exit code 6, and the first server is not disturbed', async (t) => {
    const other = t.testdir()
    t.match(await ingest(['serve', '--store', other, '--listen', `127.0.0.1:${server.port}`, '--json']), {
      code: 6,
      stdout: /^\{"ok":false,"error":\{"code":"address-in-use",.*"retryable":true\}\}\n$/,
      stderr: new RegExp(`^ingest: port ${server.port} on 127\\.0\\.0\\.1 is in use: .*--listen or --admin\n$`),
    })
    t.equal((await fetch(`${server.url}/readyz`)).status, 200)
    t.strictSame(readdirSync(other), [], 'no store is created')
  })
  server.signal('SIGTERM')
  t.match(await server.exited, { code: 0, stdout: /^listening on \S+\n$/ })
  const log = server.log()
  t.ok(log.every(({ level, time, msg }) => level > 0 && time > 0 && msg !== ''))
  t.match(
    log.map(({ msg }) => msg),
    ['listening', 'signalled', 'draining', 'drained'],
  )
  t.match(log.at(-1), { accepted: 3, duplicates: 2, rejected: 1, conflicts: 0 })
  t.notMatch(JSON.stringify(log), key)
})

t.test(
  'a missing store is created, and a store without keys is logged with the command that creates one',
  async (t) => {
    const data = join(t.testdir(), 'new', 'data')
    const first = await serveHere(t, ['--store', data])
    first.signal('SIGTERM')
    t.match(await first.exited, { code: 0 })
    t.match(
      first.log().filter(({ level }) => level === 40),
      [{ msg: `create one: ingest keys create --store ${data} --project <id>` }],
    )
    const key = await createKey(data)
    const second = await serveHere(t, ['--store', data])
    t.equal((await send({ ...second, key }, ['a'])).status, 202)
    second.signal('SIGTERM')
    await second.exited
    t.strictSame(
      second.log().filter(({ level }) => level >= 40),
      [],
    )
  },
)

t.test('invalid options are wrong usage', async (t) => {
  const serve = ['serve', '--store', data]
  const limits = [
    'on',
    'requests=0',
    '100,100',
    'events',
    'requests=1,',
    'requests=1.5',
    'requests=1,requests=2',
    'OFF',
  ]
  for (const limit of [...limits, 'uploads=off', 'reads=1', 'toString=1']) {
    await isWrongUsage(
      t,
      [...serve, '--rate-limit', limit],
      /--rate-limit <limits>' argument '.*' is invalid. Expected/,
    )
  }
  for (const bytes of ['', '0', 'off', '1.5M', '-1', '1T', '1 M', '1000000000000000000G']) {
    await isWrongUsage(t, [...serve, '--pending-map-limit', bytes], /Expected a size from 1 to/)
  }
  await isWrongUsage(
    t,
    [...serve, '--log-level', 'loud'],
    /Allowed choices are fatal, error, warn, info, debug, silent/,
  )
  for (const address of [
    '',
    ':8787',
    '8787',
    'localhost',
    'a:b',
    '::1:8787',
    '127.0.0.1:65536',
    'http://a:1',
    'unix:',
  ]) {
    await isWrongUsage(t, [...serve, '--listen', address], /--listen <address>' argument '.*' is invalid/)
  }
  await isWrongUsage(t, [...serve, '--listen', '203.0.113.1:0'], /not an address of this machine/)
})

t.test('on a terminal it logs text for people, in color unless NO_COLOR is set', async (t) => {
  for (const [env, patterns] of [
    [{}, [/WARN.*the store has no key/, /drained.*"accepted":0/]],
    [{ NO_COLOR: '1' }, [/^\[\d\d:\d\d:\d\d\] WARN: the store has no key/, /INFO: drained \{"accepted":0/]],
  ] as const) {
    const serve = ['serve', '--store', join(t.testdir(), 'data'), '--listen', '127.0.0.1:0']
    const running = startRun(serve, { env, isTerminal: true })
    t.match(await running.nextLine(), /^listening on http:\/\/127/)
    while (!running.stderr().includes('no key')) await running.nextError()
    running.signal('SIGINT')
    t.match(await running.exited, { code: 0 })
    const lines = running.stderr().split('\n')
    for (const pattern of patterns)
      t.ok(
        lines.some((line) => pattern.test(line)),
        `${pattern} in ${running.stderr()}`,
      )
  }
})

const noTerminal = spawnSync('script', ['--version']).error
  ? 'script(1), which makes terminals, is not installed'
  : false
t.test('Ctrl-C on a real terminal shuts it down gracefully', { skip: noTerminal }, async (t) => {
  const quoted = ingestCommand(['serve', '--store', data, '--listen', '127.0.0.1:0']).map((word) => `'${word}'`)
  const child = spawn('script', ['-qec', quoted.join(' '), '/dev/null'], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: ownTerminal(),
  })
  t.teardown(() => void child.kill('SIGKILL'))
  let text = ''
  let isStopped = false
  child.stdout.on('data', (chunk) => {
    text += chunk
    if (isStopped || !/listening on \S+\s/.test(text)) return
    isStopped = true
    child.stdin.write('\u0003')
  })
  await once(child, 'close')
  t.match(text, /drained.*"accepted":0/)
})

t.test('requests above the rate limit get 429, and succeed after Retry-After', async (t) => {
  const { sender } = await open(t, '--rate-limit', 'requests=1,events=100')
  const responses = await Promise.all(idsOf('burst', 10).map((id) => send(sender, [id])))
  const refused = responses.filter(({ status }) => status === 429)
  t.ok(responses.some(({ status }) => status === 202))
  t.match(refused[0]?.body, { code: 'rate-limited', retryable: true })
  const policy = '"requests";q=2;qu="requests";w=2, "events";q=500;qu="events";w=5, "batch-bytes";q=262144;'
  for (const { headers } of responses) t.match(headers.get('RateLimit-Policy'), policy)
  const seconds = refused.map(({ headers }) => Number(headers.get('Retry-After')))
  t.ok(seconds.every((each) => Number.isInteger(each) && each >= 1))
  await delay(Math.min(...seconds) * 1000)
  t.equal((await send(sender, ['after'])).status, 202)
})

/** Publishes a small map. */
function publish({ url, key }: Sender, map: unknown): Promise<Response> {
  return fetch(`${url}/v1/maps`, {
    method: 'PUT',
    headers: { 'X-Project-Id': projectId, 'X-Ingestion-Key': key, 'Content-Type': 'application/json' },
    body: JSON.stringify({ placeId: '1', buildId: 'b', map }),
  })
}

t.test('reads, bytes of maps and publications have their own limits', async (t) => {
  const { sender } = await open(t, '--rate-limit', 'reads=4k,uploads=10')
  const headers = { 'X-Project-Id': projectId, 'X-Ingestion-Key': sender.key }
  const read = () => fetch(`${sender.url}/v1/stats`, { headers })
  const first = await read()
  t.equal(first.status, 200)
  t.equal(
    first.headers.get('RateLimit-Policy'),
    '"read-requests";q=400;qu="requests";w=4, "read-bytes";q=16384;qu="content-bytes";w=4',
  )
  const refused = await read()
  t.equal(refused.status, 429)
  t.ok(Number(refused.headers.get('Retry-After')) >= 1)
  const published = await publish(sender, 'x'.repeat(900))
  t.ok(published.ok)
  t.equal(
    published.headers.get('RateLimit-Policy'),
    '"map-requests";q=1000;qu="requests";w=10, "map-bytes";q=160;qu="content-bytes";w=16',
  )
  t.equal((await publish(sender, [])).status, 429)
})

t.test(
  'without rate limits, unfinished uploads still have a limit, which maps in one request do not count to',
  async (t) => {
    const { sender } = await open(t, '--rate-limit', 'off', '--pending-map-limit', '400')
    const responses = await Promise.all(idsOf('many', 300).map((id) => send(sender, [id])))
    for (const { status, headers } of responses) {
      if (status !== 202 || headers.has('RateLimit') || headers.has('RateLimit-Policy')) t.fail(`${status}`)
    }
    t.ok((await publish(sender, 'x'.repeat(901))).ok)
    const digest = `sha256:${'0'.repeat(64)}`
    const manifest = { contentType: 'a/b', size: 1, digest, chunks: [{ digest, size: 1 }] }
    const refused = await fetch(`${sender.url}/v1/maps`, {
      method: 'PUT',
      headers: { 'X-Project-Id': projectId, 'X-Ingestion-Key': sender.key, 'Content-Type': 'application/json' },
      body: JSON.stringify({ placeId: '2', buildId: 'b', manifest }),
    })
    t.equal(refused.status, 413)
    t.match(await refused.json(), { code: 'map-quota-exceeded', limit: 400, actual: 417, retryable: false })
  },
)

/** What senders know: what they sent, what was acknowledged, and all responses. */
interface Ledger {
  sent: string[]
  acknowledged: string[]
  responses: Sent[]
}

/** Sends batches concurrently until the server is gone or refuses one; `onResponse` is called after each 202. */
async function load(sender: Sender, name: string, ledger: Ledger, onResponse: () => void): Promise<void> {
  const senders = idsOf(name, 4).map(async (sequence) => {
    for (let i = 0; ; i++) {
      const batch = idsOf(`${sequence}-${i}`, 20)
      ledger.sent.push(...batch)
      const response = await send(sender, batch).catch(() => undefined)
      if (response === undefined) return
      ledger.responses.push(response)
      if (response.status !== 202) return
      ledger.acknowledged.push(...batch)
      onResponse()
    }
  })
  await Promise.all(senders)
}

/** Asserts that acknowledged events are stored, stored events were sent, and none is stored twice. */
async function isComplete(t: Test, data: string, { sent, acknowledged }: Ledger, prefix = '') {
  const stored = (await exportedIds(data)).filter((id) => id.startsWith(prefix))
  const storedSet = new Set(stored)
  const sentSet = new Set(sent)
  t.equal(storedSet.size, stored.length, 'no event is stored twice')
  t.strictSame(
    acknowledged.filter((id) => !storedSet.has(id)),
    [],
    `none of ${acknowledged.length} is lost`,
  )
  t.strictSame(
    stored.filter((id) => !sentSet.has(id)),
    [],
    'no event is invented',
  )
  return storedSet
}

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  t.test(`${signal} under load: acknowledged events are stored, later batches get 503`, async (t) => {
    const { server, sender } = await open(t, '--rate-limit', 'off')
    const ledger: Ledger = { sent: [], acknowledged: [], responses: [] }
    await load(sender, signal, ledger, () => {
      if (ledger.responses.length === 20) server.signal(signal)
    })
    t.match(await server.exited, { code: 0 })
    for (const { status, headers, body } of ledger.responses) {
      if (status === 202) continue
      t.match({ status, body }, { status: 503, body: { code: 'draining', retryable: true } })
      t.ok(Number(headers.get('Retry-After')) >= 1)
    }
    const stored = await isComplete(t, data, ledger, signal)
    t.equal(server.log().at(-1)?.accepted, stored.size, 'the log has the number of accepted events')
  })
}

/** Starts a request without its body, and waits until the server has received its headers. */
async function openSlowRequest(t: Test, { port }: ServeProcess, body: string): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => socket.destroy())
  socket.on('error', () => {})
  socket.write(
    [
      'POST /v1/events/batch HTTP/1.1',
      'Host: localhost',
      `X-Project-Id: ${projectId}`,
      `X-Ingestion-Key: ${key}`,
      'Content-Type: application/json',
      `Content-Length: ${Buffer.byteLength(body)}`,
      'Expect: 100-continue',
      '\r\n',
    ].join('\r\n'),
  )
  const [chunk] = await once(socket, 'data')
  if (!String(chunk).startsWith('HTTP/1.1 100 ')) throw new Error(String(chunk))
  return socket
}

/** Sends until the server drains. */
async function drainingResponse(sender: Sender, batch: string[]): Promise<Sent> {
  let response = await send(sender, batch)
  for (let i = 0; i < 10_000 && response.status === 202; i++) response = await send(sender, batch)
  return response
}

t.test(
  'while it drains, requests in flight are completed and new ones get 503, also after another SIGTERM',
  async (t) => {
    const { server, sender } = await open(t, '--rate-limit', 'off')
    const body = batchOf(['slow'])
    const slow = await openSlowRequest(t, server, body)
    server.signal('SIGTERM')
    const late = await drainingResponse(sender, ['other'])
    t.match(late, { status: 503, body: { code: 'draining', retryable: true } })
    t.match(late.headers.get('Retry-After'), /^[1-9]\d*$/)
    t.equal((await fetch(`${server.url}/readyz`)).status, 503)
    server.signal('SIGTERM')
    slow.write(body)
    t.match(String((await once(slow, 'data'))[0]), /^HTTP\/1\.1 202 .*"accepted":1/s)
    t.match(await server.exited, { code: 0 })
    t.ok((await exportedIds(data)).includes('slow'))
  },
)

t.test('a second SIGINT ends the process immediately', async (t) => {
  const running = startRun(['serve', '--store', data, '--listen', '127.0.0.1:0'])
  const url = (await running.nextLine()).replace('listening on ', '')
  const port = Number(new URL(url).port)
  const slow = await openSlowRequest(t, { port } as ServeProcess, batchOf(['stuck']))
  running.signal('SIGINT')
  t.equal((await drainingResponse({ url, key }, ['other'])).status, 503)
  t.strictSame(running.ends, [])
  running.signal('SIGINT')
  t.strictSame(running.ends, [130])
  slow.destroy()
  t.match(await running.exited, { code: 0 })
})

t.test('it keeps running after the reader of its log closes the pipe', async (t) => {
  const server = await startServe(t, ['--store', data])
  server.closeLog()
  t.equal((await send({ ...server, key }, ['closed log'])).status, 202)
  server.signal('SIGTERM')
  t.match(await server.exited, { code: 0, signal: null })
})

t.test('a deleted data file ends the process', async (t) => {
  const data = t.testdir()
  const sender = { key: await createKey(data), url: '' }
  const server = await startServe(t, ['--store', data, '--rate-limit', 'off'])
  sender.url = server.url
  t.equal((await send(sender, ['a'])).status, 202)
  rmSync(join(data, 'events', 'data.mdb'))
  // the file is checked once a second
  let response: Sent | undefined
  const deadline = Date.now() + 30_000
  do response = await send(sender, ['b']).catch(() => undefined)
  while (response?.status === 202 && Date.now() < deadline)
  t.ok(response === undefined || response.status === 503)
  t.match(await server.exited, { code: null, signal: 'SIGKILL' })
  t.match(
    server.log().find(({ level }) => level === 60),
    { code: 'store-failed', msg: /ends immediately/ },
  )
})

t.test('three servers on one directory accept each event once', async (t) => {
  const servers = await Promise.all([1, 2, 3].map(() => startServe(t, ['--store', data, '--rate-limit', 'off'])))
  const pool = idsOf('overlap', 600)
  // a different order each: 7 and 11 have no divisor in common with 600
  const orders = [1, 7, 11].map((step) => pool.map((_, i) => pool[(i * step) % pool.length] as string))
  const accepted = await Promise.all(
    servers.map(async (server, slot) => {
      let sum = 0
      for (let at = 0; at < pool.length; at += 50) {
        const { status, body } = await send({ ...server, key }, (orders[slot] as string[]).slice(at, at + 50))
        t.match({ status, body }, { status: 202, body: { rejected: [] } })
        t.equal((body.accepted ?? 0) + (body.duplicates ?? 0), 50)
        sum += body.accepted ?? 0
      }
      return sum
    }),
  )
  t.equal(
    accepted.reduce((a, b) => a + b),
    pool.length,
  )
  const stored = (await exportedIds(data)).filter((id) => id.startsWith('overlap'))
  t.strictSame(stored.toSorted(), pool.toSorted())
})

t.test('a server that is killed under load does not disturb another one on its directory', async (t) => {
  const data = t.testdir()
  const key = await createKey(data)
  const start = () => startServe(t, ['--store', data, '--rate-limit', 'off', '--log-level', 'error'])
  const [killed, other] = await Promise.all([start(), start()])
  const ledger: Ledger = { sent: [], acknowledged: [], responses: [] }
  let isRestarted = false
  async function loadOther(sequence: string): Promise<void> {
    for (let i = 0; !isRestarted; i++) {
      const batch = idsOf(`${sequence}-${i}`, 20)
      ledger.sent.push(...batch)
      const { status, body } = await send({ ...other, key }, batch)
      t.match({ status, body }, { status: 202, body: { rejected: [] } })
      ledger.acknowledged.push(...batch)
    }
  }
  async function loadKilled(): Promise<void> {
    // the ids that the other server is sent, too
    await load({ ...killed, key }, 'shared', ledger, () => {
      if (ledger.responses.length === 20) killed.signal('SIGKILL')
    })
    t.match(await killed.exited, { signal: 'SIGKILL' })
    const restarted = await start()
    const again = await send({ ...restarted, key }, ledger.acknowledged.slice(0, 20))
    t.match(again, { status: 202, body: { accepted: 0, duplicates: 20 } })
    isRestarted = true
  }
  await Promise.all([...idsOf('shared', 4).map(loadOther), loadKilled()])
  t.ok(ledger.responses.every(({ status }) => status === 202))
  await isComplete(t, data, ledger)
  t.strictSame(other.log(), [])
})

const cycles = Number(process.env.INGEST_KILL_CYCLES ?? 8)

t.test(`a server that is killed ${cycles} times under load loses no acknowledged event`, async (t) => {
  const data = t.testdir()
  const key = await createKey(data)
  const ledger: Ledger = { sent: [], acknowledged: [], responses: [] }
  for (let cycle = 0; cycle < cycles; cycle++) {
    const server = await startServe(t, ['--store', data, '--rate-limit', 'off', '--log-level', 'silent'])
    const wanted = ledger.responses.length + 1 + ((cycle * 7) % 23)
    await load({ ...server, key }, `cycle-${cycle}`, ledger, () => {
      // while other batches are in flight
      if (ledger.responses.length === wanted) server.signal('SIGKILL')
    })
    t.match(await server.exited, { signal: 'SIGKILL', stderr: /^$/ })
  }
  t.ok(ledger.responses.every(({ status }) => status === 202))
  await isComplete(t, data, ledger)

  const server = await serveHere(t, ['--store', data, '--rate-limit', 'off'])
  for (let at = 0; at < ledger.sent.length; at += 100) {
    const { status, body } = await send({ ...server, key }, ledger.sent.slice(at, at + 100))
    t.match({ status, body }, { status: 202, body: { rejected: [] } })
  }
  server.signal('SIGTERM')
  await server.exited
  const stored = await isComplete(t, data, { ...ledger, acknowledged: ledger.sent })
  t.equal(stored.size, ledger.sent.length, 'sending all events again completes the store')
})
