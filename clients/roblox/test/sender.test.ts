import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { createIngest, type EmbeddedIngest, openMemoryStore } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { createHandler } from '@ingest/server'
import t, { type Test } from 'tap'
import { type GameOptions, openGame } from './open-game.ts'
import { accept, answer, cut, cutAfter, json, openScriptedServer, type Step } from './scripted-server.ts'

const batchBytesMax = 262_144
const projectId = 'game-1'
const none = { bad_request: 0, closed: 0, queue_overflow: 0, rejected: 0, studio: 0, too_large: 0 }
const upTo = (count: number, from = 0) => Array.from({ length: count }, (_, i) => from + i)

/** Which requests were compressed. */
const codings = (received: readonly { isCompressed: boolean }[]) => received.map(({ isCompressed }) => isCompressed)

/** Starts a sender in a game, and records the calls of its callbacks in `drops`, `rejections` and `pauses`. */
const begin = `
  local settings = ...
  local HttpService = game:GetService("HttpService")
  drops, rejections, pauses = {}, {}, {}
  settings.onDrop = function(reason, events)
    local numbers = {}
    for _, event in events do table.insert(numbers, event.n or -1) end
    table.insert(drops, { reason, numbers })
  end
  settings.onRejected = function(all) for _, each in all do table.insert(rejections, each) end end
  settings.onRetry = function(_, seconds) table.insert(pauses, seconds) end
  settings.key = settings.key or HttpService:GetSecret("ingest_key")
  sender = require(script.Parent.IngestSender).new(settings)
`

async function openSender(t: Test, url: string, settings: object = {}, options: GameOptions = {}) {
  const game = await openGame({ random: 0.5, secrets: { ingest_key: 'ik_secret' }, ...options })
  t.teardown(game.close)
  await game.run(begin, { url, projectId, ...settings })
  return {
    ...game,
    send: (event: object) => game.run('return sender:send(...)', event) as Promise<string>,
    sendAll: (numbers: number[]) => game.run('for _, n in ... do sender:send({ n = n }) end', numbers),
    stats: () => game.run('return sender:stats()'),
    flush: async () => game.until(await game.start('sender:flush() return sender:stats()')),
    close: async (seconds?: number) => game.until(await game.start('return sender:close(...)', seconds)),
    drops: () => game.run('return drops'),
    pauses: () => game.run('return pauses'),
    rejections: () => game.run('return rejections'),
    times: () => game.received.map(({ at }) => at),
  }
}

/** A sender to a scripted server. */
async function open(t: Test, settings: object, ...steps: Step[]) {
  const server = await openScriptedServer(t, ...(steps.length > 0 ? steps : [accept]))
  const sender = await openSender(t, server.url, settings)
  const numbers = () => server.bodies.map((body) => JSON.parse(body).events.map(({ n }: { n: number }) => n))
  return { ...sender, ...server, numbers }
}

/** The real server, and whatever came to it. */
async function openIngest(t: Test) {
  const ingest = createIngest({ store: openMemoryStore() })
  const { key } = await ingest.keys.create(projectId)
  const handle = createHandler(ingest)
  const codings: unknown[] = []
  const server = createServer((req, res) => {
    codings.push(req.headers['content-encoding'])
    handle(req, res)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    server.closeAllConnections()
    server.close()
    await ingest.close()
  })
  return { ingest, key, codings, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

async function storedIn(ingest: EmbeddedIngest) {
  const events = []
  for await (const { bytes } of ingest.project(projectId).readEvents())
    events.push(JSON.parse(Buffer.from(bytes).toString()))
  return events
}

t.test('events come to the real server once, in order, and compressed', async (t) => {
  const { ingest, key, codings, url } = await openIngest(t)
  const { run, flush, output, now } = await openSender(t, url, {}, { secrets: { ingest_key: key } })
  const ids = await run(`
    local ids = {}
    for n = 1, 250 do
      local event = { n = n, text = "grün €5 😀", list = { 1, 2 }, empty = {}, placeId = game.PlaceId }
      table.insert(ids, (sender:send(event)))
      event.n = -1
    end
    table.insert(ids, (sender:send({ eventId = "mine", n = 251 })))
    return ids
  `)
  t.match(await flush(), { accepted: 251, duplicates: 0, dropped: none, queuedEvents: 0, queuedBytes: 0 })
  const stored = await storedIn(ingest)
  t.strictSame(
    stored.map(({ eventId, n }) => [eventId, n]),
    ids.map((id: string, i: number) => [id, i + 1]),
  )
  t.match(stored[0], { projectId, text: 'grün €5 😀', list: [1, 2], empty: [], placeId: 920587237 })
  t.match(ids[0], /^[0-9a-f]{8}-[0-9a-f-]{27}$/)
  t.strictSame(codings, ['gzip', 'gzip', 'gzip'])
  t.strictSame([now(), output], [0, []])
})

t.test('rejected events are passed to onRejected with their issues, and not sent again', async (t) => {
  const { key, codings, url } = await openIngest(t)
  const { send, flush, rejections, drops } = await openSender(t, url, { key })
  await send({ n: 1 })
  await send({ n: 2, buildId: 7, eventId: 'bad' })
  await send({ n: 3, projectId: 'other' })
  t.match(await flush(), { accepted: 1, dropped: { ...none, rejected: 2 }, queuedEvents: 0 })
  await flush()
  t.match(await rejections(), [
    { event: { n: 2, eventId: 'bad' }, issues: [{ code: 'invalid_type', path: '/buildId' }] },
    { event: { n: 3 }, issues: [{ code: 'project_mismatch' }] },
  ])
  t.strictSame(await drops(), [['rejected', [2, 3]]])
  t.strictSame(codings, [undefined])
})

t.test('onRejected gets no key and no control character of a response', async (t) => {
  const text = 'of ik_se.cret\r\nERROR forged\u001b[31m\u009b31m\u2028x'
  const issues = [{ code: text, path: text, message: text }]
  const step = json({ accepted: 0, duplicates: 0, rejected: [{ index: 0, eventId: null, issues }] })
  const { send, flush, rejections } = await open(t, { key: 'ik_se.cret' }, step)
  await send({ n: 1 })
  await flush()
  const shown = 'of [key]  ERROR forged [31m 31m x'
  t.match(await rejections(), [{ event: { n: 1 }, issues: [{ code: shown, path: shown, message: shown }] }])
})

t.test('a server that is killed and started again has each event once', async (t) => {
  const directory = t.testdir()
  const data = join(directory, 'data')
  const ingest = createIngest({ store: await openLmdbStore(data) })
  const { key } = await ingest.keys.create(projectId)
  await ingest.close()

  const first = await startServe(t, data, '0')
  const { port } = new URL(first.url)
  let answers = 0
  const onAnswer = async () => {
    if (++answers !== 3) return undefined
    await first.kill()
    return { problem: 'HttpError: ECONNRESET' }
  }
  const options = { secrets: { ingest_key: key }, onAnswer }
  const { sendAll, start, stats, until, pass, received } = await openSender(t, first.url, {}, options)
  await sendAll(upTo(1000))
  const flushed = await start('sender:flush()')
  // the third batch is stored, and the game does not know
  await pass(20)
  t.match(await stats(), { accepted: 200, queuedEvents: 800, failure: 'HttpError: ECONNREFUSED' })
  await startServe(t, data, port)
  await until(flushed)
  t.match(await stats(), { accepted: 900, duplicates: 100, dropped: none, queuedEvents: 0, failure: undefined })
  t.ok(received.length > 12)

  const reader = createIngest({ store: await openLmdbStore(data) })
  t.strictSame(
    (await storedIn(reader)).map(({ n }) => n),
    upTo(1000),
  )
  await reader.close()
})

/** `ingest serve` in a process of its own. */
async function startServe(t: Test, data: string, port: string) {
  const binary = fileURLToPath(new URL('../../../packages/cli/bin/ingest.js', import.meta.url))
  // the test runner puts a loader into every Node that it sees being started
  const { NODE_OPTIONS: _, ...env } = process.env
  const child = spawn(process.execPath, [binary, 'serve', '--store', data, '--listen', `127.0.0.1:${port}`], {
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { ...env, _TAPJS_PROCESSINFO_COVERAGE_: '0' },
  })
  const exited = once(child, 'exit')
  const kill = async () => {
    child.kill('SIGKILL')
    await exited
  }
  t.teardown(kill)
  const [line] = await once(createInterface(child.stdout), 'line')
  return { url: String(line).replace('listening on ', ''), kill }
}

t.test('a batch is as large as the service takes, to the byte', async (t) => {
  const { ingest, key, codings, url } = await openIngest(t)
  const { run, flush, received, drops } = await openSender(t, url, { key })
  // the filling makes what is around it, with three bytes a character, fill a body
  const fill = `
    local count, over = table.unpack(...)
    local HttpService = game:GetService("HttpService")
    local parts = {}
    for n = 1, count do
      local event = { eventId = HttpService:GenerateGUID(false), projectId = "game-1", n = n, text = "" }
      local room = 262144 - #'{"events":[]}' - (count - 1)
      local share = (if n == count then room - (count - 1) * (room // count) + over else room // count)
      local left = share - #HttpService:JSONEncode(event)
      event.text = string.rep("€", left // 3) .. string.rep("x", left % 3)
      sender:send(event)
    end
    return { sender:stats().queuedBytes, sender:stats().queuedEvents }
  `
  const sizes = () => received.map(({ body }) => Buffer.byteLength(body))

  // filled to the brim, it goes at once
  await run(fill, [7, 0])
  t.match(await flush(), { accepted: 7, dropped: none })
  t.strictSame(sizes(), [batchBytesMax])

  t.strictSame(await run(fill, [1, 0]), [batchBytesMax - 13, 1])
  t.match(await flush(), { accepted: 8, dropped: none })
  await run(fill, [1, 1])
  t.match(await flush(), { accepted: 8, dropped: { ...none, too_large: 1 } })
  t.strictSame(await drops(), [['too_large', [1]]])

  // one byte more takes a second request
  await run(fill, [7, 1])
  t.match(await flush(), { accepted: 15 })
  t.equal(received.length, 4)
  t.ok(sizes().every((size) => size <= batchBytesMax))
  t.equal(codings.length, 4)
  t.equal((await storedIn(ingest)).length, 15)
})

t.test('a batch goes when it is full, and else two seconds after an event came', async (t) => {
  const { send, sendAll, numbers, pass, times } = await open(t, {})
  await send({ n: 0 })
  await pass(1)
  await send({ n: 1 })
  await pass(0.9)
  t.equal(numbers().length, 0)
  await pass(0.1)
  await sendAll(upTo(230, 2))
  await pass(2)
  t.strictSame(numbers(), [[0, 1], upTo(100, 2), upTo(100, 102), upTo(30, 202)])
  t.strictSame(times(), [2, 2, 2, 4])
})

t.test('a batch that is answered with 413 is dropped, and the next one goes', async (t) => {
  const { sendAll, flush, numbers, drops, pauses } = await open(t, {}, answer(413), accept)
  await sendAll(upTo(101))
  t.match(await flush(), { accepted: 1, retries: 0, dropped: { ...none, too_large: 100 }, queuedEvents: 0 })
  t.strictSame(numbers(), [upTo(100), [100]])
  t.strictSame(await drops(), [['too_large', upTo(100)]])
  t.strictSame(await pauses(), [])
})

t.test('a compressed batch that is answered with 400 is sent uncompressed once, and then dropped', async (t) => {
  const { sendAll, flush, numbers, bodies, received, drops, pauses } = await open(
    t,
    {},
    answer(400),
    answer(400),
    accept,
  )
  await sendAll(upTo(300))
  t.match(await flush(), { accepted: 200, retries: 1, dropped: { ...none, bad_request: 100 }, queuedEvents: 0 })
  t.strictSame(numbers(), [upTo(100), upTo(100), upTo(100, 100), upTo(100, 200)])
  t.equal(bodies[0], bodies[1])
  // it was not the compression, so that goes on
  t.strictSame(codings(received), [true, false, true, true])
  t.strictSame(await drops(), [['bad_request', upTo(100)]])
  t.strictSame(await pauses(), [])
})

t.test('a small batch, which is not compressed, is dropped with the first 400', async (t) => {
  const { sendAll, flush, received, drops } = await open(t, {}, answer(400), accept)
  await sendAll([1])
  t.match(await flush(), { accepted: 0, retries: 0, dropped: { ...none, bad_request: 1 } })
  t.strictSame(await drops(), [['bad_request', [1]]])
  t.equal(received.length, 1)
})

t.test('before a server that takes no compressed batch, nothing is lost and nothing compressed any more', async (t) => {
  let isCompressed = false
  const step: Step = (res, body) => (isCompressed ? answer(400)(res, body) : accept(res, body))
  const server = await openScriptedServer(t, step)
  const onRequest = (request: { isCompressed: boolean }) => {
    isCompressed = request.isCompressed
  }
  const { sendAll, flush, received, drops } = await openSender(t, server.url, {}, { onRequest })
  await sendAll(upTo(300))
  t.match(await flush(), { accepted: 300, retries: 1, dropped: none, failure: undefined })
  t.strictSame(codings(received), [true, false, false, false])
  t.strictSame(await drops(), [])
})

t.test('a batch stays uncompressed through what comes after the 400', async (t) => {
  const { sendAll, flush, received } = await open(t, {}, answer(503), answer(400), answer(503), answer(401), accept)
  await sendAll(upTo(200))
  t.match(await flush(), { accepted: 200, retries: 4, dropped: none })
  t.strictSame(codings(received), [true, true, false, false, false, false])
})

t.test('in Studio nothing is sent, unless it is to be', async (t) => {
  const { url, bodies } = await openScriptedServer(t, accept)
  const muted = await openSender(t, url, {}, { isStudio: true })
  t.match(await muted.send({ n: 1 }), /^[0-9a-f-]{36}$/)
  t.match(await muted.flush(), { accepted: 0, queuedEvents: 0, dropped: { ...none, studio: 1 } })
  t.match(await muted.close(), { dropped: { ...none, studio: 1 } })
  t.strictSame(await muted.drops(), [['studio', [1]]])
  t.strictSame([bodies, muted.now()], [[], 0])
  const sending = await openSender(t, url, { sendsInStudio: true }, { isStudio: true })
  await sending.send({ n: 1 })
  t.match(await sending.flush(), { accepted: 1, dropped: none })
  const live = await openSender(t, url, { sendsInStudio: false })
  await live.send({ n: 1 })
  t.match(await live.flush(), { accepted: 1, dropped: none })
})

for (const status of [401, 403]) {
  t.test(`a ${status} is five minutes of silence, then one probe`, async (t) => {
    const steps = [answer(503), answer(status), answer(status), answer(503), accept]
    const { sendAll, pass, start, stats, times, numbers, pauses } = await open(t, {}, ...steps)
    await sendAll(upTo(150))
    await pass(300)
    t.equal(times().length, 2)
    await sendAll(upTo(150, 150))
    const flushed = await start('sender:flush()')
    await pass(1)
    t.equal(times().length, 3)
    t.match(await stats(), { queuedEvents: 300, retries: 2, failure: `HTTP ${status}` })
    await pass(301)
    t.strictSame(times(), [0, 0.5, 300.5, 600.5, 601, 601, 601])
    t.strictSame(numbers().slice(4), [upTo(100), upTo(100, 100), upTo(100, 200)])
    // it resets the backoff
    t.strictSame(await pauses(), [0.5, 300, 300, 0.5])
    t.match(await stats(), { accepted: 300, queuedEvents: 0 })
    t.ok(flushed.end?.isFine)
  })
}

t.test('what fails for the same reason is one warning until something is stored', async (t) => {
  const steps = [answer(404), answer(503), answer(404), answer(404), accept, answer(404)]
  const { sendAll, pass, warnings, output } = await open(t, {}, ...steps)
  await sendAll(upTo(200))
  await pass(600)
  t.strictSame(
    warnings.map((text) => /HTTP \d+/.exec(text)?.[0]),
    ['HTTP 404', 'HTTP 503', 'HTTP 404'],
  )
  t.strictSame(output, [])
})

t.test('a game that may not send requests says so once', async (t) => {
  const game = await openSender(t, 'http://127.0.0.1:1', {}, { isHttpDisabled: true })
  await game.sendAll([1])
  await game.pass(600)
  t.match(game.warnings, [/Http requests are not enabled/])
  t.match(await game.stats(), { queuedEvents: 1, failure: /Http requests are not enabled/ })
})

t.test('a key that is a function is called for each request', async (t) => {
  const { url, ...server } = await openScriptedServer(t, answer(503), accept)
  const game = await openGame({ random: 0.5 })
  t.teardown(game.close)
  await game.run(
    `calls = 0
    local function key()
      calls += 1
      if calls == 1 then error("no secret yet", 0) end
      return "k" .. calls
    end
    sender = require(script.Parent.IngestSender).new({ url = ..., projectId = "game-1", key = key })
    sender:send({ n = 1 })`,
    url,
  )
  await game.pass(60)
  t.strictSame(
    game.received.map(({ headers }) => headers['X-Ingestion-Key']),
    ['k2', 'k3'],
  )
  t.match(game.warnings, [/no secret yet$/, /HTTP 503$/])
  t.match(await game.run('return sender:stats()'), { accepted: 1 })
  t.equal(server.bodies.length, 2)
})

t.test('a key that a function returns is checked for each request, and never written', async (t) => {
  const { url, bodies } = await openScriptedServer(t, accept)
  const game = await openGame({ random: 0.5 })
  t.teardown(game.close)
  await game.run(
    `local keys = { "ik_secret\\n", 7, "ik_good" }
    sender = require(script.Parent.IngestSender).new({ url = ..., projectId = "game-1", key = function()
      return table.remove(keys, 1)
    end })
    sender:send({ n = 1 })`,
    url,
  )
  await game.pass(60)
  t.match(game.warnings, [/key must be visible ASCII characters/, /key must be an ingestion key/])
  t.notMatch(game.warnings.join(), 'secret')
  t.match(await game.run('return sender:stats()'), { accepted: 1 })
  t.equal(bodies.length, 1)
})

t.test('unusual values are kept, or refused with a message', async (t) => {
  const { run, flush, bodies } = await open(t, {})
  const problems = await run(`
    local function nest(levels)
      local value = {}
      for _ = 2, levels do value = { value } end
      return value
    end
    local cyclic = {}
    cyclic[1] = cyclic
    local refused = {
      { x = "\\xed\\xa0\\x80" }, { eventId = "\\xed\\xa0\\x80" }, { x = 0 / 0 }, { x = math.huge }, { x = 1e400 },
      { x = nest(100000) }, { x = cyclic }, { x = newproxy() }, { x = buffer.create(1) }, { x = { [true] = true } },
    }
    local problems = {}
    for _, event in refused do
      local id, problem = sender:send(event)
      table.insert(problems, if id then "taken" else problem)
    end
    table.insert(problems, select(2, sender:send(nil)))
    sender:send({ negative = -0, large = 2 ^ 53 + 1, deep = nest(40), set = { a = true }, none = nil, empty = {} })
    return problems
  `)
  t.equal(problems.filter((problem: unknown) => typeof problem === 'string' && problem !== 'taken').length, 11)
  t.match(await flush(), { accepted: 1, dropped: { ...none, bad_request: 11 } })
  const [body = ''] = bodies
  const { none: absent, ...event } = JSON.parse(body).events[0]
  t.equal(absent, undefined)
  t.match(event, { large: 9007199254740992, set: { a: true }, empty: [] })
  t.match(body, /"negative":-0[,}]/)
  t.match(body, '['.repeat(40) + ']'.repeat(40))
})

t.test('stamp and serverId are for events that have none', async (t) => {
  const { run, flush, bodies, pass } = await open(t, { stamp: true, serverId: 's-1' })
  await pass(1.5)
  await run(`
    sender:send({ n = 1 })
    sender:send({ n = 2, timestamp = "2026-11-20T00:00:00Z", serverId = "own" })
  `)
  await flush()
  t.match(JSON.parse(bodies[0] ?? ''), {
    events: [
      { n: 1, timestamp: Date.parse('2026-11-21T00:00:01.500Z'), serverId: 's-1' },
      { n: 2, timestamp: '2026-11-20T00:00:00Z', serverId: 'own' },
    ],
  })
})

t.test('pauses grow, and are never shorter than Retry-After', async (t) => {
  const date = 'Sat, 21 Nov 2026 00:00:40 GMT'
  const { sendAll, flush, numbers, times, pauses } = await open(
    t,
    {},
    answer(429, { 'Retry-After': '7' }),
    answer(503, { 'retry-after': '1' }),
    answer(429),
    answer(429, { 'RETRY-AFTER': date }),
    answer(503, { 'Retry-After': 'soon' }),
    answer(503, { 'Retry-After': 'Sat, 21 Xov 2026 00:00:40 GMT' }),
    accept,
    answer(503),
    accept,
  )
  await sendAll(upTo(200))
  await flush()
  // the game began at midnight of that day, and it is the 12th second when the date comes
  t.strictSame(await pauses(), [7.5, 2, 2, 33, 8, 16, 0.5])
  t.strictSame(times(), [0, 7.5, 9.5, 11.5, 44.5, 52.5, 68.5, 68.5, 69])
  t.strictSame(numbers(), [...Array(7).fill(upTo(100)), ...Array(2).fill(upTo(100, 100))])
})

t.test('a Retry-After of years pauses the sender for an hour', async (t) => {
  const { sendAll, flush, pauses } = await open(
    t,
    {},
    answer(429, { 'Retry-After': '99999999999' }),
    answer(503, { 'Retry-After': 'Wed, 21 Nov 2057 00:00:40 GMT' }),
    accept,
  )
  await sendAll([1])
  await flush()
  t.strictSame(await pauses(), [3600.5, 3601])
})

const passing: [string, Step][] = [
  ['500', answer(500, {}, '<html>')],
  ['502 of a proxy', answer(502)],
  ['408', answer(408)],
  ['404 of a wrong url', answer(404)],
  ['a redirect', answer(302, { Location: '/login' })],
  ['a page', answer(202, {}, '<html>welcome')],
  ['another 202', json({ ok: true })],
  ['a list', json([1])],
  ['a 202 of fewer events', json({ accepted: 1, duplicates: 0, rejected: [] })],
  ['a 202 of other events', json({ accepted: 99, duplicates: 0, rejected: [{ index: 100, issues: [] }] })],
  ['a 202 of half an event', json({ accepted: 99, duplicates: 0, rejected: [{ index: 0.5, issues: [] }] })],
  ['a 202 of a negative count', json({ accepted: 101, duplicates: -1, rejected: [] })],
  ['a reset', cut],
  ['half an answer', cutAfter('{"acc')],
]
for (const [name, step] of passing) {
  t.test(`after ${name}, the same bytes are sent until they are taken`, async (t) => {
    const { sendAll, pass, bodies, numbers, stats, pauses } = await open(t, {}, ...Array(9).fill(step), accept)
    await sendAll(upTo(100))
    await pass(0)
    // what comes in the meantime goes into later batches
    await sendAll(upTo(5, 100))
    await pass(400)
    t.equal(new Set(bodies.slice(0, 10)).size, 1)
    t.strictSame(numbers().slice(9), [upTo(100), upTo(5, 100)])
    t.strictSame(await pauses(), [0.5, 1, 2, 4, 8, 16, 30, 30, 30])
    t.match(await stats(), { accepted: 105, retries: 9, dropped: none, failure: undefined })
  })
}

t.test('a request that has no answer is sent again once the platform gives it up', async (t) => {
  let hold = () => {}
  const { sendAll, pass, times, stats, ...game } = await open(t, {}, () => hold(), accept)
  hold = game.hold
  await sendAll(upTo(100))
  await pass(100)
  t.strictSame(times(), [0, 60.5])
  t.match(await stats(), { accepted: 100, retries: 1 })
})

t.test('no more requests are made in a minute than the budget has', async (t) => {
  for (const [requestsPerMinute, requests] of [
    [30, 70],
    [2, 7],
    [undefined, 400],
  ] as const) {
    const budget = requestsPerMinute ?? 250
    const { start, until, stats, times, output } = await open(t, { requestsPerMinute })
    await until(await start('for n = 1, ... do sender:send({ n = n }) sender:flush() end', requests))
    t.match(await stats(), { accepted: requests, retries: 0 })
    t.equal(times().length, requests)
    const most = Math.max(...times().map((from) => times().filter((at) => at >= from && at < from + 60).length))
    t.ok(most <= budget, `${most} of ${budget}`)
    t.ok(most > budget * 0.9 - 1, 'and it is used')
    t.strictSame(output, [])
  }
})

t.test('a full queue drops new events, not queued ones', async (t) => {
  const { sendAll, send, flush, pass, numbers, drops } = await open(t, { queueEventsMax: 3 }, answer(503), accept)
  await sendAll(upTo(4))
  t.match(await send({ n: 4 }), /^[0-9a-f-]{36}$/)
  t.strictSame(await drops(), [
    ['queue_overflow', [3]],
    ['queue_overflow', [4]],
  ])
  await pass(60)
  t.strictSame(numbers(), [
    [0, 1, 2],
    [0, 1, 2],
  ])
  await send({ n: 5 })
  t.match(await flush(), { accepted: 4, dropped: { ...none, queue_overflow: 2 }, queuedBytes: 0 })
})

t.test('the queue is bounded in bytes too', async (t) => {
  const { send, flush, stats, drops } = await open(t, { queueBytesMax: 2000 })
  for (const n of upTo(3)) await send({ n, filling: '€'.repeat(260) })
  await send({ n: 3 })
  t.strictSame(await drops(), [['queue_overflow', [2]]])
  t.ok((await stats()).queuedBytes <= 2000)
  t.match(await flush(), { accepted: 3 })
})

t.test('close sends queued events, then stops everything', async (t) => {
  const { sendAll, send, close, flush, now, numbers, drops } = await open(t, {})
  await sendAll(upTo(120))
  t.match(await close(), { accepted: 120, queuedEvents: 0, dropped: none })
  t.strictSame([now(), numbers().flat()], [0, upTo(120)])
  t.match(await send({ n: 120 }), /^[0-9a-f-]{36}$/)
  t.strictSame(await drops(), [['closed', [120]]])
  await flush()
  t.match(await close(0), { accepted: 120, dropped: { ...none, closed: 1 } })
})

t.test('close gives up at its deadline, and says what was not stored', async (t) => {
  const { sendAll, start, until, close, now, times, drops } = await open(t, {}, answer(503))
  await sendAll(upTo(2))
  const flushed = await start('sender:flush()')
  t.match(await close(3), { accepted: 0, queuedEvents: 0, queuedBytes: 0, dropped: { ...none, closed: 2 } })
  await until(flushed)
  t.strictSame(await drops(), [['closed', [0, 1]]])
  // the next try would be at 3.5
  t.strictSame([times(), now()], [[0, 0.5, 1.5], 1.5])
})

t.test('a second close can only bring the end forward', async (t) => {
  const { sendAll, start, until, pass, now, times } = await open(t, {}, answer(503))
  await sendAll([1])
  // tried at 0, 0.5, 1.5, 3.5, 7.5, 15.5
  const closing = [await start('sender:close(20)'), await start('sender:close(1000)'), await start('sender:close()')]
  await pass(5)
  t.strictSame([times().length, closing.filter(({ end }) => end)], [4, []])
  closing.push(await start('sender:close(3)'))
  for (const each of closing) await until(each)
  t.strictSame([times().length, now()], [5, 7.5])
})

t.test('a second close ends a request that has no answer', async (t) => {
  let hold = () => {}
  const { sendAll, start, until, pass, now, stats, ...game } = await open(t, {}, () => hold())
  hold = game.hold
  await sendAll([1])
  const closing = await start('sender:close(math.huge)')
  await pass(5)
  t.notOk(closing.end)
  await until(await start('sender:close(0)'))
  t.match(closing.end, { isFine: true, value: undefined })
  t.match(await stats(), { dropped: { ...none, closed: 1 } })
  t.equal(now(), 5)
})

t.test('close does not wait for a try that would come too late', async (t) => {
  const { sendAll, pass, close, now } = await open(t, {}, answer(401))
  await sendAll([1])
  await pass(2)
  t.match(await close(200), { dropped: { ...none, closed: 1 } })
  t.equal(now(), 2)
})

t.test('close leaves a request that has no answer at the deadline', async (t) => {
  let hold = () => {}
  let answerLate = () => {}
  const step: Step = (res, body) => {
    answerLate = () => accept(res, body)
    hold()
  }
  const { sendAll, close, pass, now, stats, ...game } = await open(t, {}, step)
  hold = game.hold
  await sendAll(upTo(150))
  t.match(await close(), { queuedEvents: 0, dropped: { ...none, closed: 150 } })
  t.equal(now(), 25)
  answerLate()
  game.release()
  await pass(100)
  t.match(await stats(), { accepted: 0, retries: 0, dropped: { ...none, closed: 150 } })
  t.strictSame([game.received.length, game.output], [1, []])
})

t.test('the example sends its last event while the server shuts down, in the time that it has', async (t) => {
  const { ingest, key, url } = await openIngest(t)
  const source = readFileSync(new URL('../Example.server.luau', import.meta.url), 'utf8')
  const game = await openGame({ secrets: { ingest_key: key } })
  await game.run(source.replace('https://ingest.example', url))
  t.equal(await game.shutDown(), 0)
  const serverId = '8e0a7d6c-5b1f-4a53-9d02-6f0b7c1e2d34'
  const timestamp = Date.parse('2026-11-21T00:00:00Z')
  t.match(await storedIn(ingest), [
    { type: 'round.start', serverId, timestamp },
    { type: 'server.close', serverId, timestamp },
  ])

  const studio = await openGame({ isStudio: true })
  await studio.run(source.replace('https://ingest.example', url))
  await studio.shutDown()
  t.strictSame([studio.received, studio.output, studio.warnings], [[], [], []])

  const away = await openGame({ secrets: { ingest_key: key } })
  await away.run(source.replace('https://ingest.example', 'http://127.0.0.1:1'))
  t.ok((await away.shutDown()) <= 25)
  t.match(away.warnings, [
    /^IngestSender keeps its events and tries http:\/\/127.0.0.1:1\/v1\/events\/batch again: HttpError: ECONNREFUSED$/,
  ])
  t.strictSame([game.output, game.warnings, away.output], [[], [], []])
})

t.test('an invalid event is refused with a message, and does not affect others', async (t) => {
  const { run, flush, bodies, drops, output } = await open(t, {})
  const [problems, events] = await run(`
    local cyclic = {}
    cyclic.self = cyclic
    local deep = {}
    for _ = 1, 120 do deep = { deep } end
    local events = {
      { x = 0 / 0 }, { x = { { -math.huge } } }, { x = print }, { x = newproxy() }, { x = buffer.create(1) },
      { [1] = "a", x = "b" }, { x = { 1, nil, 3 } }, { x = { [5] = 1 } }, { x = { [true] = 1 } },
      cyclic, { x = deep }, { x = "\\255" }, { x = "\\xed\\xa0\\x80" }, { eventId = 7 }, "text", 7,
      setmetatable({}, { __metatable = "locked", __iter = error }),
    }
    local problems = {}
    for place = 1, #events do
      local id, problem = sender:send(events[place])
      table.insert(problems, if id then "taken" else problem)
    end
    table.insert(problems, select(2, sender:send(nil)))
    sender:send(table.freeze({ n = 1, nested = table.freeze({ list = {}, yes = true, text = 'a"\\\\\\n\\0' }) }))
    return { problems, #events }
  `)
  t.strictSame(problems.slice(0, 9), [
    'The event cannot be written as JSON: /x: a number that is not finite.',
    'The event cannot be written as JSON: /x/1/1: a number that is not finite.',
    'The event cannot be written as JSON: /x: a function.',
    'The event cannot be written as JSON: /x: a userdata.',
    'The event cannot be written as JSON: /x: a buffer.',
    'The event cannot be written as JSON: : a table that is neither a list nor has only strings as keys.',
    'The event cannot be written as JSON: /x: a table that is neither a list nor has only strings as keys.',
    'The event cannot be written as JSON: /x: a table that is neither a list nor has only strings as keys.',
    'The event cannot be written as JSON: /x: a table that is neither a list nor has only strings as keys.',
  ])
  t.match(problems[9], /: more than 100 levels\.$/)
  t.match(problems[10], /: more than 100 levels\.$/)
  t.strictSame(problems.slice(11, 16), [
    'The event holds text that is not UTF-8.',
    'The event holds text that is not UTF-8.',
    'An eventId must be a string, not a number.',
    'An event must be a table, not a string.',
    'An event must be a table, not a number.',
  ])
  t.notOk(problems.includes('taken'))
  t.equal(problems.length, events + 1)
  t.match(await flush(), { accepted: 1, dropped: { ...none, bad_request: events + 1 } })
  // what counts here cannot look into a number
  t.equal((await drops()).length, events)
  t.match(JSON.parse(bodies[0] ?? ''), { events: [{ n: 1, nested: { list: [], yes: true, text: 'a"\\\n\0' } }] })
  t.match(output, [/attempt to index number with 'n'/])
})

t.test('a callback that fails, waits or closes the sender stops nothing', async (t) => {
  const { bodies, url } = await openScriptedServer(
    t,
    answer(500),
    json({ accepted: 1, duplicates: 0, rejected: [{ index: 1, eventId: null, issues: [] }] }),
    accept,
  )
  const game = await openGame({ random: 0.5 })
  await game.run(
    `sender = require(script.Parent.IngestSender).new({ url = ... .. "/", projectId = "game-1", key = "k",
      queueEventsMax = 2,
      onDrop = function() error("in onDrop") end,
      onRetry = function() task.wait(1000) error("in onRetry") end,
      onRejected = function() sender:close(0) end })
    for n = 1, 3 do sender:send({ n = n }) end`,
    url,
  )
  await game.pass(10)
  t.strictSame(game.output.length, 2)
  t.match(await game.run('return sender:stats()'), {
    accepted: 1,
    queuedEvents: 0,
    dropped: { ...none, queue_overflow: 1, rejected: 1 },
  })
  t.equal(bodies.length, 2)
  await game.pass(1000)
  t.match(game.output[2], /in onRetry/)
})

t.test('a thread of the game that ended while it waited for a flush stops nothing', async (t) => {
  const { run, sendAll, pass, stats, output } = await open(t, {}, answer(503), accept)
  await sendAll([1])
  await run('thread = task.spawn(function() sender:flush() end)')
  await pass(0)
  await run('task.cancel(thread)')
  await pass(10)
  await sendAll([2])
  await pass(10)
  t.match(await stats(), { accepted: 2 })
  t.strictSame(output, [])
})

t.test('invalid options are refused at once', async (t) => {
  const { run } = await openGame()
  const wrong = [
    {},
    { url: 'ingest.example' },
    { url: 'https://' },
    { url: 'https://ingest.example\n' },
    { url: 'https://ingest.example/a b' },
    { url: 'https://user:secret@ingest.example' },
    { url: 'https://ingest.example?secret' },
    { url: 'https://ingest.example/#secret' },
    { projectId: 7 },
    { projectId: '' },
    { projectId: 'secret\n' },
    { projectId: 'a/b' },
    { projectId: 'x'.repeat(65) },
    { key: null },
    { key: 7 },
    { key: '' },
    { key: 'ik_secret\n' },
    { key: 'ik_secret\r\n' },
    { key: ' ik_secret' },
    { key: 'ik_secret\0' },
    { key: 'ik_secrét' },
    { flushSeconds: -1 },
    { queueEventsMax: 0 },
    { queueBytesMax: '9' },
    { requestsPerMinute: 1 },
    { sendsInStudio: 'yes' },
    { stamp: 1 },
    { serverId: 7 },
  ]
  const good = { url: 'https://ingest.example', projectId, key: 'k' }
  for (const each of wrong) {
    const options = Object.keys(each).length === 0 ? {} : { ...good, ...each }
    const name = Object.keys(each)[0] ?? 'url'
    const error = await run('require(script.Parent.IngestSender).new(...)', options).catch(({ message }) => message)
    t.match(error, new RegExp(`${name} must be `), JSON.stringify(each))
    t.notMatch(error, 'secr', 'the message does not have the value')
  }
  await run('require(script.Parent.IngestSender).new(...)', good)
})
