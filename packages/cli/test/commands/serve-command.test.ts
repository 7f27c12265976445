import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { ingestCommand, ownTerminal, type ServeProcess, startServe } from '../ingest-process.ts'
import { ingest, isWrongUse } from '../run-ingest.ts'
import { batchOf, createKey, exportedIds, idsOf, projectId, type Sender, type Sent, send } from '../sender.ts'

async function open(t: Test, ...args: string[]) {
  const data = t.testdir()
  const key = await createKey(data)
  const server = await startServe(t, ['--data', data, ...args])
  return { data, key, server, sender: { url: server.url, key } }
}

t.test('it prints one line when it takes requests, and logs lines of JSON on stderr', async (t) => {
  const { server, sender } = await open(t)
  t.equal(server.stdout(), `listening on http://127.0.0.1:${server.port}\n`)
  t.equal((await fetch(`${server.url}/readyz`)).status, 200)
  t.match(await send(sender, ['a', 'b', 'a']), { status: 202, body: { accepted: 2, duplicates: 1, rejected: [] } })
  t.match(await send(sender, ['b', 'c', '']), {
    status: 202,
    body: { accepted: 1, duplicates: 1, rejected: [{ index: 2 }] },
  })
  server.signal('SIGTERM')
  t.match(await server.exited, { code: 0, signal: null, stdout: /^listening on \S+\n$/ })
  const log = server.log()
  t.ok(log.every(({ level, time, msg }) => level > 0 && time > 0 && msg !== ''))
  t.match(
    log.map(({ msg }) => msg),
    ['listening', 'signalled', 'draining', 'drained'],
  )
  t.match(log.at(-1), { accepted: 3, duplicates: 2, rejected: 1, conflicts: 0 })
  t.notMatch(JSON.stringify(log), sender.key)
})

t.test('a store that is missing is made', async (t) => {
  const data = join(t.testdir(), 'new', 'data')
  const server = await startServe(t, ['--data', data])
  const key = await createKey(data)
  t.equal((await send({ ...server, key }, ['a'])).status, 202)
})

t.test('options that cannot be are wrong use', async (t) => {
  const { data, server } = await open(t)
  const serve = ['serve', '--data', data]
  for (const limits of ['', 'on', '0,100', '100', '100,0', '100,', '1.5,100', '-1,100', '100, 200', '1,2,3', 'OFF']) {
    await isWrongUse(t, [...serve, '--rate-limit', limits], /Expected "off", or two whole numbers a second/)
  }
  for (const bytes of ['', '0', 'off', '1.5M', '-1', '1T', '1 M', '1000000000000000000G']) {
    await isWrongUse(t, [...serve, '--map-rate-limit', bytes], /Expected a number of bytes from 1 to/)
    await isWrongUse(t, [...serve, '--publication-limit', bytes], /Expected a number of bytes from 1 to/)
    await isWrongUse(t, [...serve, '--pending-map-limit', bytes], /Expected a number of bytes from 1 to/)
  }
  await isWrongUse(t, [...serve, '--log-level', 'loud'], /Allowed choices are fatal, error, warn, info, debug, silent/)
  await isWrongUse(t, [...serve, '--host', ''], /not empty/)
  await isWrongUse(t, [...serve, '--port', '0', '--host', '203.0.113.1'], /not an address of this machine/)
  t.equal((await fetch(`${server.url}/readyz`)).status, 200, 'who was there first is not disturbed')
})

t.test('a port that is taken may be free later: exit 6, and the store is closed again', async (t) => {
  const { data, server } = await open(t)
  t.match(await ingest(['serve', '--data', data, '--port', String(server.port), '--json']), {
    code: 6,
    stdout: /^\{"ok":false,"error":\{"code":"address-in-use",.*"retryable":true\}\}\n$/,
    stderr: new RegExp(`^ingest: port ${server.port} on 127\\.0\\.0\\.1 is taken: .*--port\n$`),
  })
  t.equal((await fetch(`${server.url}/readyz`)).status, 200, 'who was there first is not disturbed')
})

t.test('it says when a store has no key yet, with the command that makes one', async (t) => {
  const data = join(t.testdir(), 'new')
  const first = await startServe(t, ['--data', data])
  first.signal('SIGTERM')
  await first.exited
  t.match(
    first.log().filter(({ level }) => level === 40),
    [{ msg: `make one: ingest keys create --data ${data} --project <id>` }],
  )
  await createKey(data)
  const second = await startServe(t, ['--data', data])
  second.signal('SIGTERM')
  await second.exited
  t.strictSame(
    second.log().filter(({ level }) => level >= 40),
    [],
  )
})

const noTerminal = spawnSync('script', ['--version']).error ? 'no script(1) here, which makes terminals' : false
t.test(
  'on a terminal it logs lines for people, with colours unless they are not wanted',
  { skip: noTerminal },
  async (t) => {
    const serve = ['serve', '--data', join(t.testdir(), 'data'), '--port', '0']
    for (const [env, args, patterns] of [
      [
        {},
        [],
        [
          /^␛\[2m\d\d:\d\d:\d\d␛\[22m ␛\[33mwarning: the store has no key yet/,
          /^.* ␛\[1mdrained␛\[22m ␛\[2maccepted=␛\[22m0/,
        ],
      ],
      [
        { NO_COLOR: '1' },
        [],
        [/^\d\d:\d\d:\d\d warning: the store has no key yet/, /^\d\d:\d\d:\d\d drained accepted=0 /],
      ],
      [{}, ['--log-format', 'json'], [/^\{"level":30,.*"listening"\}/, /^\{"level":30,.*"drained"\}/]],
    ] as const) {
      const quoted = ingestCommand([...serve, ...args]).map((word) => `'${word}'`)
      const child = spawn('script', ['-qec', quoted.join(' '), '/dev/null'], {
        stdio: ['pipe', 'pipe', 'ignore'],
        env: { ...ownTerminal(), ...env },
      })
      t.teardown(() => void child.kill('SIGKILL'))
      let text = ''
      let isStopped = false
      child.stdout.on('data', (chunk) => {
        text += chunk
        // as Ctrl-C does
        if (isStopped || !/listening on [\s\S]*no key yet/.test(text)) return
        isStopped = true
        child.stdin.write('\u0003')
      })
      await once(child, 'close')
      const lines = text.replaceAll('\x1b', '␛').split(/\r?\n/)
      t.ok(lines.some((line) => /^listening on http:\/\/127/.test(line)))
      for (const pattern of patterns)
        t.ok(
          lines.some((line) => pattern.test(line)),
          `${pattern} in ${lines.join('\n')}`,
        )
      if (args.length === 0) t.notMatch(text, /"level"| listening url/)
    }
  },
)

t.test('a project is limited, and waiting for as long as it is told is enough', async (t) => {
  const { sender } = await open(t, '--rate-limit', '1,100')
  const answers = await Promise.all(idsOf('burst', 10).map((id) => send(sender, [id])))
  const refused = answers.filter(({ status }) => status === 429)
  t.ok(answers.some(({ status }) => status === 202))
  t.match(refused[0]?.body, { code: 'rate-limited', retryable: true })
  const policy = '"requests";q=2;qu="requests";w=2, "events";q=500;qu="events";w=5, "batch-bytes";q=262144;'
  for (const { headers } of answers) t.match(headers.get('RateLimit-Policy'), policy)
  const waits = refused.map(({ headers }) => Number(headers.get('Retry-After')))
  t.ok(waits.every((seconds) => Number.isInteger(seconds) && seconds >= 1))
  await delay(Math.min(...waits) * 1000)
  t.equal((await send(sender, ['after'])).status, 202)
})

t.test('the usual limits are on, unless they are off', async (t) => {
  const { data, key, sender } = await open(t)
  const limited = await send(sender, ['a'])
  t.equal(
    limited.headers.get('RateLimit-Policy'),
    '"requests";q=200;qu="requests";w=2, "events";q=100000;qu="events";w=5, "batch-bytes";q=51200000;qu="content-bytes";w=5',
  )
  t.match(limited.headers.get('RateLimit'), /"requests";r=\d+;t=\d+, "events";r=\d+;t=\d+/)
  const unlimited = await startServe(t, ['--data', data, '--rate-limit', 'off'])
  const answers = await Promise.all(idsOf('many', 300).map((id) => send({ ...unlimited, key }, [id])))
  for (const { status, headers } of answers) {
    if (status !== 202 || headers.has('RateLimit') || headers.has('RateLimit-Policy')) t.fail(`${status}`)
  }
})

t.test('reads have a limit of their own', async (t) => {
  const { sender } = await open(t, '--read-rate-limit', '4K')
  const headers = { 'X-Project-Id': projectId, 'X-Ingestion-Key': sender.key }
  const read = () => fetch(`${sender.url}/v1/stats`, { headers })
  const first = await read()
  t.equal(first.status, 200)
  t.equal(first.headers.get('RateLimit-Policy'), '"read-bytes";q=16384;qu="content-bytes";w=4')
  const refused = await read()
  t.equal(refused.status, 429)
  t.ok(Number(refused.headers.get('Retry-After')) >= 1)
})

/** Publishes a small map; its answer. */
function publish({ url, key }: Sender, map: unknown): Promise<Response> {
  return fetch(`${url}/v1/maps`, {
    method: 'PUT',
    headers: { 'X-Project-Id': projectId, 'X-Ingestion-Key': key, 'Content-Type': 'application/json' },
    body: JSON.stringify({ placeId: '1', buildId: 'b', map }),
  })
}

t.test('the bytes of maps have a limit of their own, and a publication has one', async (t) => {
  const usual = await publish((await open(t)).sender, [])
  t.equal(usual.status, 201)
  t.equal(usual.headers.get('RateLimit-Policy'), '"map-bytes";q=536870912;qu="content-bytes";w=16')
  const { sender } = await open(t, '--map-rate-limit', '10', '--publication-limit', '1K')
  const first = await publish(sender, 'x'.repeat(900))
  t.equal(first.status, 201)
  t.equal(first.headers.get('RateLimit-Policy'), '"map-bytes";q=160;qu="content-bytes";w=16')
  t.equal((await publish(sender, [])).status, 429)
  const large = await open(t, '--publication-limit', '1K')
  t.equal((await publish(large.sender, 'x'.repeat(1100))).status, 413)
})

t.test('unfinished uploads have a limit, and a map in one piece is none', async (t) => {
  const { sender } = await open(t, '--pending-map-limit', '400')
  t.equal((await publish(sender, 'x'.repeat(900))).status, 201)
  const digest = `sha256:${'0'.repeat(64)}`
  const manifest = { contentType: 'a/b', size: 1, digest, chunks: [{ digest, size: 1 }] }
  const refused = await fetch(`${sender.url}/v1/maps`, {
    method: 'PUT',
    headers: { 'X-Project-Id': projectId, 'X-Ingestion-Key': sender.key, 'Content-Type': 'application/json' },
    body: JSON.stringify({ placeId: '2', buildId: 'b', manifest }),
  })
  t.equal(refused.status, 413)
  t.match(await refused.json(), { code: 'map-quota-exceeded', limit: 400, actual: 416, retryable: false })
})

/** What senders know: what they sent, and what they got an answer for. */
interface Ledger {
  sent: string[]
  acknowledged: string[]
  answers: Sent[]
}

/** Sends batches on several lanes until the server is gone, or takes no more; `onAnswer` is called after each answer. */
async function load(sender: Sender, name: string, ledger: Ledger, onAnswer: () => void): Promise<void> {
  const lanes = idsOf(name, 4).map(async (lane) => {
    for (let i = 0; ; i++) {
      const batch = idsOf(`${lane}-${i}`, 20)
      ledger.sent.push(...batch)
      const answer = await send(sender, batch).catch(() => undefined)
      if (answer === undefined) return
      ledger.answers.push(answer)
      if (answer.status !== 202) return
      ledger.acknowledged.push(...batch)
      onAnswer()
    }
  })
  await Promise.all(lanes)
}

/** Acknowledged is stored, stored was sent, and none is there twice. */
async function isComplete(t: Test, data: string, { sent, acknowledged }: Ledger) {
  const stored = await exportedIds(data)
  const storedSet = new Set(stored)
  const sentSet = new Set(sent)
  t.equal(storedSet.size, stored.length, 'none is stored twice')
  t.strictSame(
    acknowledged.filter((id) => !storedSet.has(id)),
    [],
    `none of ${acknowledged.length} is lost`,
  )
  t.strictSame(
    stored.filter((id) => !sentSet.has(id)),
    [],
    'none is invented',
  )
  return storedSet
}

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  t.test(`${signal} under load: what was acknowledged is stored, what comes later is sent elsewhere`, async (t) => {
    const { data, server, sender } = await open(t, '--rate-limit', 'off')
    const ledger: Ledger = { sent: [], acknowledged: [], answers: [] }
    await load(sender, signal, ledger, () => {
      if (ledger.answers.length === 20) server.signal(signal)
    })
    t.match(await server.exited, { code: 0, signal: null })
    for (const { status, headers, body } of ledger.answers) {
      if (status === 202) continue
      t.match({ status, body }, { status: 503, body: { code: 'draining', retryable: true } })
      t.ok(Number(headers.get('Retry-After')) >= 1)
    }
    const stored = await isComplete(t, data, ledger)
    t.equal(server.log().at(-1)?.accepted, stored.size, 'the log tells how many')
  })
}

/** Opens a request whose body is not there yet, and waits until the server has seen it. */
async function openSlowRequest(t: Test, { port }: ServeProcess, key: string, body: string): Promise<Socket> {
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

/** Asks until the answer is that the server drains. */
async function drainingAnswer(sender: Sender, batch: string[]): Promise<Sent> {
  let answer = await send(sender, batch)
  for (let i = 0; i < 10_000 && answer.status === 202; i++) answer = await send(sender, batch)
  return answer
}

t.test('while it drains, what has begun is stored and what comes new gets 503', async (t) => {
  const { data, key, server, sender } = await open(t, '--rate-limit', 'off')
  const body = batchOf(['slow'])
  const slow = await openSlowRequest(t, server, key, body)
  server.signal('SIGTERM')
  const late = await drainingAnswer(sender, ['other'])
  t.match(late, { status: 503, body: { code: 'draining', retryable: true } })
  t.match(late.headers.get('Retry-After'), /^[1-9]\d*$/)
  t.equal((await fetch(`${server.url}/readyz`)).status, 503)
  slow.write(body)
  t.match(String((await once(slow, 'data'))[0]), /^HTTP\/1\.1 202 .*"accepted":1/s)
  t.match(await server.exited, { code: 0, signal: null })
  t.ok((await exportedIds(data)).includes('slow'))
})

t.test('a second SIGINT ends it at once', async (t) => {
  const { key, server, sender } = await open(t, '--rate-limit', 'off')
  await openSlowRequest(t, server, key, batchOf(['slow']))
  server.signal('SIGINT')
  t.equal((await drainingAnswer(sender, ['other'])).status, 503)
  server.signal('SIGINT')
  t.match(await server.exited, { code: 130, signal: null })
})

t.test('it goes on when nobody reads its log any more', async (t) => {
  const { server, sender } = await open(t)
  server.closeLog()
  t.equal((await send(sender, ['a'])).status, 202)
  server.signal('SIGTERM')
  t.match(await server.exited, { code: 0, signal: null })
})

t.test('a data file that is deleted under it ends it', async (t) => {
  const { data, server, sender } = await open(t, '--rate-limit', 'off')
  t.equal((await send(sender, ['a'])).status, 202)
  rmSync(join(data, 'events', 'data.mdb'))
  // it is looked after once a second
  let answer: Sent | undefined
  const deadline = Date.now() + 30_000
  do answer = await send(sender, ['b']).catch(() => undefined)
  while (answer?.status === 202 && Date.now() < deadline)
  t.ok(answer === undefined || answer.status === 503)
  t.match(await server.exited, { code: null, signal: 'SIGKILL' })
  t.match(
    server.log().find(({ level }) => level === 60),
    { code: 'store-failed', msg: /ending at once/ },
  )
})

const cycles = Number(process.env.INGEST_KILL_CYCLES ?? 20)

t.test('three servers on one directory accept each event once', async (t) => {
  const data = t.testdir()
  const key = await createKey(data)
  const servers = await Promise.all([1, 2, 3].map(() => startServe(t, ['--data', data, '--rate-limit', 'off'])))
  const pool = idsOf('overlap', 600)
  // each in an order of its own: 7 and 11 have no divisor in common with 600
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
  const stored = await exportedIds(data)
  t.strictSame(stored.toSorted(), pool.toSorted())
})

// the next two run at once: the second one mostly waits
t.jobs = 2
const atOnce = { buffered: true }

t.test(`a server that is killed ${cycles} times under load loses nothing that it acknowledged`, atOnce, async (t) => {
  const data = t.testdir()
  const key = await createKey(data)
  const ledger: Ledger = { sent: [], acknowledged: [], answers: [] }
  for (let cycle = 0; cycle < cycles; cycle++) {
    const server = await startServe(t, ['--data', data, '--rate-limit', 'off', '--log-level', 'silent'])
    const wanted = ledger.answers.length + 1 + ((cycle * 7) % 23)
    await load({ ...server, key }, `cycle-${cycle}`, ledger, () => {
      // with batches of the other lanes under way
      if (ledger.answers.length === wanted) server.signal('SIGKILL')
    })
    t.match(await server.exited, { signal: 'SIGKILL', stderr: /^$/ })
  }
  t.ok(ledger.answers.every(({ status }) => status === 202))
  await isComplete(t, data, ledger)

  const server = await startServe(t, ['--data', data, '--rate-limit', 'off'])
  for (let at = 0; at < ledger.sent.length; at += 100) {
    const { status, body } = await send({ ...server, key }, ledger.sent.slice(at, at + 100))
    t.match({ status, body }, { status: 202, body: { rejected: [] } })
  }
  const stored = await isComplete(t, data, { ...ledger, acknowledged: ledger.sent })
  t.equal(stored.size, ledger.sent.length, 'sending everything again completes it')
})

t.test('a client that is stuck does not hold it up for ever, nor does a second SIGTERM break it', atOnce, async (t) => {
  const { data, key, server, sender } = await open(t, '--rate-limit', 'off')
  t.equal((await send(sender, ['a'])).status, 202)
  const body = batchOf(['stuck'])
  const stuck = await openSlowRequest(t, server, key, body)
  stuck.write(body.slice(0, -1))
  server.signal('SIGTERM')
  t.equal((await drainingAnswer(sender, ['b'])).status, 503)
  server.signal('SIGTERM')
  t.match(await server.exited, { code: 0, signal: null })
  t.notOk((await exportedIds(data)).includes('stuck'))
})
