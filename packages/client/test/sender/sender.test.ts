import { spawnSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { inspect } from 'node:util'
import { createIngest, openMemoryStore } from '@ingest/core'
import { type JsonObject, lockDirectory } from '@ingest/core/internal'
import { serve } from '@ingest/server'
import t, { type Test } from 'tap'
import { eventBytesMax } from '../../src/batch/fill-batch.ts'
import { createClient } from '../../src/client.ts'
import type { DropReason } from '../../src/sender/outcomes.ts'
import { createSendQueue } from '../../src/sender/send-queue.ts'
import { createSender, createSenderWith, type SenderClient, type SenderOptions } from '../../src/sender/sender.ts'
import { openSpool, spoolBytesMin } from '../../src/sender/spool.ts'
import {
  cut,
  cutAfter,
  json,
  key,
  openScriptedServer,
  problem,
  projectId,
  type Step,
  stall,
  text,
} from '../scripted-server.ts'
import { createVirtualTime } from '../virtual-time.ts'

type Received = Parameters<Step>[1]

/** The events of a request. */
const eventsOf = ({ body }: Received): JsonObject[] => JSON.parse(body.toString()).events
const numbersOf = (received: Received[]) => received.map((each) => eventsOf(each).map(({ n }) => n))

/** Responds that all events were accepted. */
const accept: Step = (res, received) => {
  json(202, { accepted: eventsOf(received).length, duplicates: 0, rejected: [] })(res, received)
}

/** A sender to a scripted server, with a clock that the test advances. */
async function open(t: Test, options: SenderOptions, ...steps: Step[]) {
  const scripted = await openScriptedServer(t, ...(steps.length > 0 ? steps : [accept]))
  const client = createClient({ url: scripted.url, projectId, key, tryTimeoutMs: 500 })
  const time = createVirtualTime()
  const drops: [DropReason, unknown[]][] = []
  const pauses: number[] = []
  const target: typeof client = {
    ...client,
    submitBatch: (...args) => time.during(client.submitBatch(...args)),
  }
  const senderOptions: SenderOptions = {
    onDrop: (reason, events) => drops.push([reason, events.map(({ n }) => n)]),
    onRetry: (_error, ms) => pauses.push(ms),
    ...options,
  }
  const start = () => createSenderWith(target, senderOptions, { ...time.effects, random: () => 0.5 })
  const sender = start()
  t.teardown(async () => {
    await sender.close({ deadlineMs: 0 })
    await client.close()
  })
  const sendAll = (...numbers: number[]) => numbers.map((n) => sender.send({ n }))
  return { ...scripted, client, sender, sendAll, start, time, drops, pauses }
}

/** The process warnings until the end of the test. */
function warningsOf(t: Test): string[] {
  const warnings: string[] = []
  const onWarning = ({ message }: Error) => warnings.push(message)
  process.on('warning', onWarning)
  t.teardown(() => process.off('warning', onWarning))
  return warnings
}

const upTo = (count: number, from = 0) => Array.from({ length: count }, (_, i) => from + i)
const none = {
  bad_request: 0,
  closed: 0,
  damaged: 0,
  queue_overflow: 0,
  rejected: 0,
  spool_overflow: 0,
  too_large: 0,
}

t.test('events are sent together after two seconds, as they were when sent, with ids and the project', async (t) => {
  const { sender, received, time } = await open(t, {})
  const event = { type: 'a' }
  const made = sender.send(event)
  event.type = 'later'
  t.equal(sender.send(Buffer.from(`{"eventId":"mine","projectId":"${projectId}","n":12345678901234567890}`)), 'mine')
  await time.pass(1999)
  t.equal(received.length, 0)
  t.match(sender.stats(), { queuedEvents: 2, accepted: 0 })
  await time.pass(1)
  t.equal(
    received.map(({ body }) => body.toString()).join(),
    `{"events":[{"projectId":"${projectId}","eventId":"${made}","type":"a"},{"eventId":"mine","projectId":"${projectId}","n":12345678901234567890}]}`,
  )
  t.match(received[0], {
    path: '/v1/events/batch',
    headers: { 'content-encoding': undefined, 'x-project-id': projectId },
  })
  t.strictSame(sender.stats(), {
    accepted: 2,
    duplicates: 0,
    dropped: none,
    queuedEvents: 0,
    queuedBytes: 0,
    retries: 0,
    failure: undefined,
  })
  sender.send({ type: 'later' })
  await time.pass(2000)
  t.equal(received.length, 2)
})

t.test('the type of an event may be an interface or a class, which have no index signature', async (t) => {
  interface RoundStart {
    type: 'round.start'
    round: number
  }
  class Kill {
    type = 'kill'
    readonly #secret = 'private'
    weapon = 'bow'
    get length() {
      return this.#secret.length
    }
  }
  const { sender, received, time } = await open(t, {}, accept)
  const start: RoundStart = { type: 'round.start', round: 7 }
  sender.send(start)
  sender.send(new Kill())
  // @ts-expect-error a text is not an event
  t.throws(() => sender.send('{}'), { code: 'invalid-argument' })
  await time.until(sender.flush())
  t.match(received.flatMap(eventsOf), [start, { type: 'kill', weapon: 'bow', length: undefined }])
})

t.test('with stamp, an event without a timestamp gets the time of send', async (t) => {
  const { sender, received } = await open(t, { stamp: true })
  const before = Date.now()
  sender.send({ n: 1 })
  sender.send(Buffer.from('{"n":2}'))
  const after = Date.now()
  sender.send({ n: 3, timestamp: 7 })
  sender.send({ n: 4, timestamp: null })
  await sender.flush()
  const [first, second, ...given] = eventsOf(received[0] as Received).map(({ timestamp }) => timestamp)
  for (const timestamp of [first, second]) {
    t.match(timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    const time = Date.parse(String(timestamp))
    t.ok(time >= before && time <= after)
  }
  t.strictSame(given, [7, null])
})

t.test('a full batch is sent at once: 100 events, or 262,144 bytes', async (t) => {
  const { sender, sendAll, received, time } = await open(t, {})
  sendAll(...upTo(250))
  await time.pass(0)
  t.strictSame(numbersOf(received), [upTo(100), upTo(100, 100)])
  t.equal(sender.stats().queuedEvents, 50)
  await time.pass(2000)
  t.strictSame(numbersOf(received)[2], upTo(50, 200))
  for (const n of upTo(5)) sender.send({ n, filling: 'é'.repeat(50_000) })
  await time.pass(0)
  const pairs = [
    [0, 1],
    [2, 3],
  ]
  t.strictSame(numbersOf(received).slice(3), pairs)
  await sender.flush()
  t.strictSame(numbersOf(received).slice(3), [...pairs, [4]])
})

t.test('an event that is larger than a batch is dropped, and the largest one is sent', async (t) => {
  const { sender, received, drops } = await open(t, {})
  const around = JSON.stringify({ projectId, eventId: 'e', n: 1, filling: '' }).length
  t.equal(sender.send({ eventId: 'e', n: 1, filling: 'x'.repeat(eventBytesMax - around + 1) }), 'e')
  t.strictSame(drops, [['too_large', [1]]])
  sender.send({ eventId: 'e', n: 2, filling: 'x'.repeat(eventBytesMax - around) })
  await sender.flush()
  t.strictSame(numbersOf(received), [[2]])
  t.equal(received[0]?.body.length, 262_144)
  t.match(sender.stats(), { accepted: 1, dropped: { ...none, too_large: 1 } })
})

t.test('flush resolves when all earlier events are stored', async (t) => {
  const { sender, sendAll, received, time } = await open(t, {})
  await sender.flush()
  sendAll(...upTo(130))
  const flushed = sender.flush()
  sendAll(1000)
  await flushed
  t.strictSame(numbersOf(received).flat().slice(0, 130), upTo(130))
  t.ok(sender.stats().accepted >= 130)
  await time.pass(2000)
  t.equal(sender.stats().accepted, 131)
})

t.test('rejected events are passed to onRejected with their issues, and not sent again', async (t) => {
  const issues = [{ code: 'invalid_type', path: '/n', message: 'no' }]
  const rejections: unknown[] = []
  const result = { accepted: 1, duplicates: 1, rejected: [{ index: 2, eventId: 'e', issues }] }
  const { sender, sendAll, received, drops, time } = await open(
    t,
    { onRejected: (each) => rejections.push(...each) },
    json(202, result),
  )
  const [, , eventId] = sendAll(0, 1, 2)
  await time.pass(600_000)
  t.equal(received.length, 1)
  t.strictSame(rejections, [{ event: { projectId, eventId, n: 2 }, issues }])
  t.strictSame(drops, [['rejected', [2]]])
  t.match(sender.stats(), { accepted: 1, duplicates: 1, dropped: { ...none, rejected: 1 }, queuedEvents: 0 })
})

t.test('a key that a response repeats is in no callback', async (t) => {
  const seen: unknown[] = []
  const see = (...values: unknown[]) => seen.push(...values)
  const issues = [{ code: key, path: `/${key}`, message: `Not ${key}.` }]
  const { sendAll, time } = await open(
    t,
    { onDrop: see, onRejected: see, onRetry: see },
    problem(503, 'overloaded', { detail: key }),
    json(202, { accepted: 0, duplicates: 0, rejected: [{ index: 0, eventId: null, issues }] }),
  )
  sendAll(0)
  await time.pass(600_000)
  t.equal(seen.length, 5)
  t.match(inspect(seen, { depth: 9 }), 'Not [key].')
  t.notMatch(inspect(seen, { depth: 9 }), key)
})

t.test('the status alone decides what the sender does', async (t) => {
  const { sender, sendAll, received, drops, pauses, time } = await open(
    t,
    {},
    problem(503, 'malformed-body'),
    problem(429, 'unauthorized'),
    problem(404, 'batch-too-large'),
    accept,
    problem(400, 'overloaded'),
    problem(413, 'unauthorized'),
    problem(401, 'malformed-body'),
    accept,
  )
  sendAll(...upTo(400))
  await time.pass(400_000)
  t.strictSame(
    numbersOf(received).map(([first]) => first),
    [0, 0, 0, 0, 100, 200, 300, 300],
  )
  t.strictSame(drops, [
    ['bad_request', upTo(100, 100)],
    ['too_large', upTo(100, 200)],
  ])
  t.strictSame(pauses, [500, 1000, 2000, 300_000])
  t.match(sender.stats(), { accepted: 200, queuedEvents: 0, dropped: { ...none, bad_request: 100, too_large: 100 } })
})

t.test('a 401 pauses the sender for five minutes, then sends one batch', async (t) => {
  const unavailable = problem(401, 'unauthorized')
  const { sender, sendAll, received, pauses, time } = await open(t, {}, unavailable, unavailable, accept)
  sendAll(...upTo(150))
  await time.pass(299_999)
  t.equal(received.length, 1)
  sendAll(...upTo(150, 150))
  void sender.flush()
  await time.pass(1)
  t.equal(received.length, 2)
  t.match(sender.stats(), { queuedEvents: 300, retries: 1, failure: { code: 'unauthorized' } })
  await time.pass(299_999)
  t.equal(received.length, 2)
  await time.pass(1)
  t.strictSame(numbersOf(received).slice(2), [upTo(100), upTo(100, 100), upTo(100, 200)])
  t.strictSame(pauses, [300_000, 300_000])
  t.match(sender.stats(), { accepted: 300, failure: undefined, queuedEvents: 0 })
})

t.test('pauses after 429 and 503 grow, and are never shorter than Retry-After', async (t) => {
  const { sendAll, received, pauses, time } = await open(
    t,
    {},
    problem(429, 'rate-limited', {}, { 'Retry-After': '7' }),
    problem(503, 'overloaded', {}, { 'Retry-After': '1' }),
    problem(429, 'rate-limited'),
    accept,
    problem(503, 'draining'),
    accept,
  )
  sendAll(...upTo(200))
  await time.pass(60_000)
  t.strictSame(pauses, [7500, 2000, 2000, 500])
  t.strictSame(numbersOf(received), [...Array(4).fill(upTo(100)), ...Array(2).fill(upTo(100, 100))])
})

const passing: [string, Step][] = [
  ['500 of a damaged store', problem(500, 'store-damaged')],
  ['502 of a proxy', text(502, '<html>')],
  ['a redirect', text(302, '', { Location: '/login' })],
  ['an HTML page', text(202, '<html>welcome')],
  ['another 202', json(202, { ok: true })],
  ['a 202 of fewer events', json(202, { accepted: 1, duplicates: 0, rejected: [] })],
  ['a 202 of other events', json(202, { accepted: 99, duplicates: 0, rejected: [{ index: 100, issues: [] }] })],
  ['a closed connection', cut],
  ['a truncated response', cutAfter('{"acc', { 'Content-Length': '40' }, 202)],
  ['no response', stall],
]
t.test('the same bytes are sent after any temporary failure, until they are accepted', async (t) => {
  for (const [name, step] of passing) {
    const tries = name === '502 of a proxy' ? 9 : 2
    const { sender, sendAll, received, pauses, time } = await open(t, {}, ...Array(tries).fill(step), accept)
    sendAll(...upTo(100))
    await time.pass(0)
    // later events go into later batches
    sendAll(...upTo(5, 100))
    await time.pass(400_000)
    t.equal(received.length, tries + 2, name)
    const [first] = received as [Received]
    t.ok(received.slice(0, -1).every(({ body }) => body.equals(first.body)))
    t.strictSame(pauses, [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000].slice(0, tries))
    t.match(sender.stats(), { accepted: 105, retries: tries, dropped: none, failure: undefined })
  }
})

t.test('a full queue drops new events, not queued ones', async (t) => {
  const { sender, sendAll, received, drops, time } = await open(
    t,
    { queueEventsMax: 3 },
    problem(503, 'draining'),
    accept,
  )
  t.equal(sendAll(...upTo(5)).length, 5)
  t.strictSame(drops, [
    ['queue_overflow', [3]],
    ['queue_overflow', [4]],
  ])
  await time.pass(60_000)
  t.strictSame(numbersOf(received), [
    [0, 1, 2],
    [0, 1, 2],
  ])
  sendAll(5)
  await time.pass(2000)
  t.match(sender.stats(), { accepted: 4, dropped: { ...none, queue_overflow: 2 }, queuedBytes: 0 })
})

t.test('the queue is bounded in bytes', async (t) => {
  const { sender, drops } = await open(t, { queueBytesMax: 2000 })
  for (const n of upTo(3)) sender.send({ n, filling: 'x'.repeat(800) })
  sender.send({ n: 3 })
  t.strictSame(drops, [['queue_overflow', [2]]])
  t.ok(sender.stats().queuedBytes <= 2000)
  await sender.flush()
  t.equal(sender.stats().accepted, 3)
})

t.test('close sends all queued events', async (t) => {
  const { sender, sendAll, received } = await open(t, {})
  sendAll(...upTo(120))
  const closing = sender.close()
  t.throws(() => sender.send({ n: 1 }), { code: 'store-closed' })
  t.match(await closing, { accepted: 120, queuedEvents: 0, dropped: none })
  t.strictSame(numbersOf(received).flat(), upTo(120))
  t.strictSame(await sender.close({ deadlineMs: 0 }), await closing)
  await sender.flush()
})

t.test('close drops unsent events at its deadline', async (t) => {
  const { sender, sendAll, received, drops, time } = await open(t, {}, problem(503, 'draining'))
  sendAll(...upTo(2))
  const flushed = sender.flush()
  const closing = sender.close({ deadlineMs: 3000 })
  t.match(await time.until(closing), { accepted: 0, queuedEvents: 0, queuedBytes: 0, dropped: { ...none, closed: 2 } })
  await flushed
  t.strictSame(drops, [['closed', [0, 1]]])
  // after 500 and 1000; the next pause would be 2000
  t.equal(received.length, 3)
})

t.test('close does not wait for a retry after its deadline', async (t) => {
  const { sender, sendAll, received, time } = await open(t, {}, problem(401, 'unauthorized'))
  sendAll(1)
  await time.pass(2000)
  t.match(await sender.close({ deadlineMs: 200_000 }), { dropped: { ...none, closed: 1 } })
  t.equal(received.length, 1)
})

t.test('a second close can only bring the end forward', async (t) => {
  const { sender, sendAll, received, time } = await open(t, {}, problem(503, 'draining'))
  sendAll(1)
  const ends: number[] = []
  const close = (deadlineMs?: number) =>
    sender.close(deadlineMs === undefined ? {} : { deadlineMs }).then(() => ends.push(time.effects.now()))
  // retried at 500, 1500, 3500, 7500, 15,500, 31,500
  const closing = [close(20_000), close(1_000_000), close()]
  await time.pass(4000)
  t.strictSame([received.length, ends], [4, []])
  closing.push(close(5000))
  await time.until(Promise.all(closing))
  t.strictSame([received.length, ends], [5, Array(4).fill(7500)])
})

t.test('a second close ends a first one without a deadline', async (t) => {
  const { sender, sendAll, received } = await open(t, {}, stall)
  sendAll(1)
  const closing = sender.close({ deadlineMs: Number.POSITIVE_INFINITY })
  while (received.length === 0) await turn()
  t.match(await sender.close({ deadlineMs: 0 }), { dropped: { ...none, closed: 1 } })
  t.match(await closing, { dropped: { ...none, closed: 1 } })
})

t.test('a sender is disposable', async (t) => {
  const { sender, sendAll } = await open(t, {})
  sendAll(1)
  await sender[Symbol.asyncDispose]()
  t.match(sender.stats(), { accepted: 1 })
  t.throws(() => sender.send({}), { code: 'store-closed' })
})

t.test('close aborts a request in flight', async (t) => {
  const { sender, sendAll, received } = await open(t, {}, stall)
  sendAll(1)
  void sender.flush()
  while (received.length === 0) await turn()
  t.match(await sender.close({ deadlineMs: 0 }), { dropped: { ...none, closed: 1 } })
})

t.test('a client that is closed first ends the sender; a spool keeps its events', async (t) => {
  for (const spool of [undefined, t.testdir()]) {
    const { sender, sendAll, client, drops, pauses, time } = await open(t, { spool })
    await client.close()
    sendAll(1, 2)
    const flushed = sender.flush()
    await time.pass(0)
    await flushed
    t.throws(() => sender.send({}), { code: 'store-closed' })
    const fate = spool ? { queuedEvents: 2, dropped: none } : { queuedEvents: 0, dropped: { ...none, closed: 2 } }
    t.match(await sender.close(), { ...fate, failure: { code: 'store-closed' } })
    t.strictSame({ drops, pauses }, { drops: spool ? [] : [['closed', [1, 2]]], pauses: [] })
  }
})

t.test('a signal closes the sender, also during close', async (t) => {
  const controller = new AbortController()
  const { sender, sendAll, drops, time } = await open(t, { signal: controller.signal }, problem(503, 'draining'))
  sendAll(1)
  await time.pass(2000)
  const closing = sender.close({ deadlineMs: Number.POSITIVE_INFINITY })
  controller.abort()
  t.match(await closing, { dropped: { ...none, closed: 1 } })
  t.strictSame(drops, [['closed', [1]]])

  const other = new AbortController()
  const second = await open(t, { signal: other.signal })
  second.sendAll(1)
  other.abort()
  t.throws(() => second.sender.send({}), { code: 'store-closed' })
  t.match(await second.sender.close(), { dropped: { ...none, closed: 1 } })
  t.throws(() => second.start(), { name: 'AbortError' })
})

t.test('a spool keeps unsent events and their ids for the next sender', async (t) => {
  const spool = join(t.testdir(), 'spool')
  const unavailable = problem(503, 'draining')
  const { sender, sendAll, start, received, drops, time } = await open(t, { spool }, unavailable, accept)
  const ids = sendAll(...upTo(150))
  await time.pass(0)
  t.throws(start, { code: 'invalid-argument' }, 'one sender holds the lock')
  t.match(await sender.close({ deadlineMs: 0 }), { queuedEvents: 150, dropped: none })
  t.strictSame(drops, [])

  const next = start()
  t.equal(next.stats().queuedEvents, 150)
  next.send({ n: 150 })
  await next.flush()
  const sent = received.slice(1).flatMap(eventsOf)
  t.strictSame(
    sent.map(({ n }) => n),
    upTo(151),
  )
  t.strictSame(
    sent.slice(0, 150).map(({ eventId }) => eventId),
    ids,
  )
  await next.close()
  t.strictSame(readdirSync(spool), ['settled'])
  const empty = start()
  t.equal(empty.stats().queuedEvents, 0)
  await empty.close()
})

t.test('settled events, also rejected ones, are not sent again after a crash', async (t) => {
  const spool = t.testdir()
  const result = { accepted: 99, duplicates: 0, rejected: [{ index: 7, eventId: null, issues: [] }] }
  const { sendAll, start, received, time } = await open(t, { spool }, json(202, result), accept)
  sendAll(...upTo(130))
  await time.pass(0)
  // simulate the end of the process that holds the lock
  rmSync(join(spool, 'lock'))
  const next = start()
  await next.flush()
  t.strictSame(numbersOf(received), [upTo(100), upTo(30, 100)])
  t.match(await next.close(), { accepted: 30 })
})

t.test('with a spool, the disk is the bound of the queue, in order and across restarts', async (t) => {
  const spool = t.testdir()
  const unavailable = problem(503, 'draining')
  const options = { spool, queueEventsMax: 3 }
  const { sender, sendAll, start, received, drops, time } = await open(t, options, unavailable, unavailable, accept)
  sendAll(...upTo(250))
  await time.pass(0)
  sendAll(...upTo(250, 250))
  t.match(sender.stats(), { queuedEvents: 500 })
  t.match(await sender.close({ deadlineMs: 0 }), { queuedEvents: 500, dropped: none })

  const next = start()
  t.match(next.stats(), { queuedEvents: 500 })
  t.ok(next.stats().queuedBytes > 500 * '{"n":1}'.length)
  for (const n of upTo(250, 500)) next.send({ n })
  await time.until(next.flush())
  for (const n of upTo(250, 750)) next.send({ n })
  await time.until(next.flush())
  t.strictSame(numbersOf(received.slice(2)).flat(), upTo(1000))
  t.match(await next.close(), { accepted: 1000, queuedEvents: 0, queuedBytes: 0, dropped: none })
  t.strictSame(drops, [])
  t.strictSame(readdirSync(spool), ['settled'])
})

t.test('a full spool drops new events until older ones are stored', async (t) => {
  const options = { spool: t.testdir(), spoolBytesMax: spoolBytesMin }
  const { sender, received, drops, time } = await open(t, options, problem(503, 'draining'), accept)
  const send = (n: number) => sender.send({ n, filling: 'x'.repeat(100_000) })
  for (const n of upTo(25)) send(n)
  t.strictSame(
    drops,
    upTo(5, 20).map((n) => ['spool_overflow', [n]]),
  )
  await time.until(sender.flush())
  for (const n of upTo(10, 25)) send(n)
  await time.until(sender.flush())
  t.strictSame(numbersOf(received.slice(1)).flat(), [...upTo(20), ...upTo(10, 25)])
  t.match(sender.stats(), { accepted: 30, dropped: { ...none, spool_overflow: 5 } })
  t.throws(() => createSender({} as SenderClient, { spoolBytesMax: spoolBytesMin - 1 }), {
    code: 'invalid-argument',
    message: 'spoolBytesMax',
  })
})

t.test('with a full disk, events after those that only the spool has are dropped', async (t) => {
  const spool = t.testdir()
  const { sender, received, drops, time } = await open(
    t,
    { spool, queueEventsMax: 2 },
    problem(503, 'draining'),
    accept,
  )
  const warnings = warningsOf(t)
  const send = (n: number) => sender.send({ n, filling: 'x'.repeat(100_000) })
  for (const n of upTo(11)) send(n)
  // like a full disk: the next segment cannot be created
  mkdirSync(join(spool, '0000000000000002.spool'))
  send(11)
  t.strictSame(drops, [['queue_overflow', [11]]])
  await time.until(sender.flush())
  rmSync(join(spool, '0000000000000002.spool'), { recursive: true })
  send(12)
  await time.until(sender.flush())
  t.strictSame(numbersOf(received.slice(1)).flat(), [...upTo(11), 12])
  t.match(warnings, [/cannot be written, events are in memory only: EEXIST/])
})

t.test('events that vanish from a spool while they wait are dropped as damaged, and flush ends', async (t) => {
  const spool = t.testdir()
  const { sender, received, drops, time } = await open(
    t,
    { spool, queueEventsMax: 2 },
    problem(503, 'draining'),
    accept,
  )
  const warnings = warningsOf(t)
  for (const n of upTo(25)) sender.send({ n, filling: 'x'.repeat(100_000) })
  rmSync(join(spool, '0000000000000002.spool'))
  await time.until(sender.flush())
  t.strictSame(numbersOf(received.slice(1)).flat(), [...upTo(11), ...upTo(3, 22)])
  t.strictSame(drops, [['damaged', []]])
  t.match(sender.stats(), { accepted: 14, queuedEvents: 0, queuedBytes: 0, dropped: { ...none, damaged: 11 } })
  t.match(warnings, [/0000000000000002\.spool cannot be read: ENOENT/])
})

for (const [name, remove] of [
  ['directory', (spool: string) => rmSync(spool, { recursive: true })],
  ['lock', (spool: string) => rmSync(join(spool, 'lock'))],
  ['file of events', (spool: string) => rmSync(join(spool, '0000000000000001.spool'))],
] as const) {
  t.test(`a spool whose ${name} is deleted gets the events in memory again`, async (t) => {
    const spool = join(t.testdir(), 'spool')
    const { sender, sendAll, start, received, time } = await open(t, { spool }, problem(503, 'draining'), accept)
    const warnings = warningsOf(t)
    const ids = sendAll(0, 1, 2)
    remove(spool)
    ids.push(...sendAll(3))
    await time.pass(2000)
    remove(spool)
    t.match(await sender.close({ deadlineMs: 0 }), { queuedEvents: 4, dropped: none })

    const next = start()
    await time.until(next.flush())
    t.strictSame(
      [
        ...new Set(
          received
            .slice(1)
            .flatMap(eventsOf)
            .map(({ eventId }) => eventId),
        ),
      ],
      ids,
    )
    t.match(await next.close(), { queuedEvents: 0, dropped: none })
    t.strictSame(readdirSync(spool), ['settled'])
    t.match(warnings, [
      /was deleted or moved, or taken over/,
      /was deleted or moved, or taken over/,
      /4 unsent events: 4 kept in /,
    ])
  })
}

t.test('events that only a deleted spool had are counted as damaged', async (t) => {
  const spool = join(t.testdir(), 'spool')
  const { sender, sendAll, received, drops, time } = await open(t, { spool, queueEventsMax: 2 }, accept)
  sendAll(...upTo(5))
  rmSync(spool, { recursive: true })
  await time.until(sender.flush())
  t.strictSame(numbersOf(received), [[0, 1]])
  t.strictSame(drops, [['damaged', []]])
  t.match(await sender.close(), { accepted: 2, queuedEvents: 0, dropped: { ...none, damaged: 3 } })
})

t.test(
  'a sender whose spool was taken over keeps its events in memory, and leaves that of the other alone',
  async (t) => {
    const spool = t.testdir()
    const { sender, sendAll, start, received, drops, time } = await open(t, { spool }, problem(503, 'draining'), accept)
    const warnings = warningsOf(t)
    const ids = sendAll(0, 1, 2)
    // as a process of another container does when this one was stopped for longer than its lock lasts
    rmSync(join(spool, 'lock'))
    const other = start()
    ids.push(...sendAll(3), other.send({ n: 4 }))
    const files = readdirSync(spool)
    t.strictSame(files, ['0000000000000001.spool', '0000000000000002.spool', 'lock'])
    await time.until(Promise.all([sender.flush(), other.flush()]))
    t.strictSame(
      [
        ...new Set(
          received
            .slice(1)
            .flatMap(eventsOf)
            .map(({ eventId }) => eventId),
        ),
      ].sort(),
      ids.sort(),
    )
    t.strictSame([sender.stats().queuedEvents, other.stats().queuedEvents, drops], [0, 0, []])

    sendAll(5)
    t.match(await sender.close({ deadlineMs: 0 }), { queuedEvents: 0, dropped: { ...none, closed: 1 } })
    await other.close()
    t.strictSame(readdirSync(spool), ['settled'])
    // warnings come in the next turn
    await turn()
    t.match(warnings, [/taken over/, /is in use by process \d+/, /1 unsent event: 1 dropped/])
  },
)

t.test('events that cannot be read from a spool now are sent when they can', async (t) => {
  const spool = t.testdir()
  const segment = join(spool, '0000000000000002.spool')
  const onRetry = (error: unknown) => {
    // the spool can be read again later, as after a moment without file descriptors
    if ((error as { code?: string }).code === 'draining' || !existsSync(`${segment}-away`)) return
    rmSync(segment, { recursive: true })
    renameSync(`${segment}-away`, segment)
  }
  const options = { spool, queueEventsMax: 2, onRetry }
  const { sender, received, drops, time } = await open(t, options, problem(503, 'draining'), accept)
  for (const n of upTo(25)) sender.send({ n, filling: 'x'.repeat(100_000) })
  renameSync(segment, `${segment}-away`)
  mkdirSync(segment)
  await time.until(sender.flush())
  t.strictSame(numbersOf(received.slice(1)).flat(), upTo(25))
  t.strictSame(drops, [])
  t.match(sender.stats(), { accepted: 25, queuedEvents: 0, queuedBytes: 0 })
})

t.test('a large spool is read segment by segment', async (t) => {
  const bytesMax = 1024 ** 3
  const openQueue = (directory: string) =>
    createSendQueue({
      spool: openSpool({ directory, projectId, bytesMax }),
      eventsMax: 10,
      bytesMax,
      onUnreadable: (count) => t.fail(`${count} are unreadable`),
    })
  const directory = t.testdir()
  const queue = openQueue(directory)
  const event = (n: number) => Buffer.from(JSON.stringify({ n, filling: 'x'.repeat(10_000) }))
  for (const n of upTo(1000)) t.equal(queue.add(event(n)), undefined)
  const inMemory = () => queue.first(1000).length
  t.equal(inMemory(), 10)
  for (let removed = 0; removed < 500; removed += 10) {
    t.strictSame(queue.first(1)[0]?.bytes, event(removed))
    queue.remove(10)
    t.ok(inMemory() < 150)
  }
  t.equal(queue.events(), 500)
  queue.close()
  const next = openQueue(directory)
  t.equal(next.events(), 500)
  t.ok(next.first(1000).length < 150)
  t.strictSame(next.first(1)[0]?.bytes, event(500))
  next.close()
})

/** The spool of a closed sender with that many events, and the path of its only segment. */
async function leaveSpool(t: Test, count: number) {
  const spool = t.testdir()
  const { sender, sendAll } = await open(t, { spool }, problem(503, 'draining'))
  const ids = sendAll(...upTo(count))
  await sender.close({ deadlineMs: 0 })
  const [segment = ''] = readdirSync(spool)
    .filter((name) => /^\d{16}/.test(name))
    .map((name) => join(spool, name))
  return { spool, segment, ids }
}

/** A sender to a real server. */
async function openToServer(t: Test, options: SenderOptions) {
  const ingest = createIngest({ store: openMemoryStore(), authenticate: () => true })
  const served = await serve({ ingest, port: 0, closeTimeoutMs: 1 })
  const client = createClient({ url: served.url, projectId, key })
  const drops: [DropReason, JsonObject[]][] = []
  const sender = createSender(client, { onDrop: (...drop) => drops.push(drop), ...options })
  t.teardown(async () => {
    await sender.close({ deadlineMs: 0 })
    await client.close()
    await served.close()
    await ingest.close()
  })
  return { sender, client, drops }
}

t.test('events of a spool that are damaged or larger than a batch are dropped alone', async (t) => {
  const { spool, segment, ids } = await leaveSpool(t, 100)
  const bytes = readFileSync(segment)
  bytes[bytes.indexOf(ids[50] as string) + 3] = 0xff
  writeFileSync(segment, bytes)
  const opened = openSpool({ directory: spool, projectId, bytesMax: spoolBytesMin })
  opened.append(Buffer.from(JSON.stringify({ projectId, eventId: 'e', n: 100, filling: 'x'.repeat(eventBytesMax) })))
  opened.close()
  const { sender, drops } = await openToServer(t, { spool })
  t.match(drops, [
    ['damaged', { length: 0 }],
    ['too_large', [{ n: 100 }]],
  ])
  await sender.flush()
  t.match(await sender.close(), { accepted: 99, dropped: { ...none, damaged: 1, too_large: 1 }, queuedEvents: 0 })
  t.strictSame(readdirSync(spool).sort(), [`${basename(segment)}.damaged`, 'settled'])
})

const hasFullDevice = existsSync('/dev/full')
t.test(
  'with a full disk at the start, events are in memory only',
  {
    skip: !hasFullDevice && 'no /dev/full here',
  },
  async (t) => {
    const { spool } = await leaveSpool(t, 3)
    const warnings = warningsOf(t)
    const { unlock } = lockDirectory(spool)
    const [pid, , namespace = ''] = readFileSync(join(spool, 'lock'), 'utf8').trim().split(' ')
    unlock()
    const ownLock = join(spool, `lock.${pid}${namespace}`)
    symlinkSync('/dev/full', ownLock)
    const { sender } = await openToServer(t, { spool })
    sender.send({ n: 4 })
    await sender.flush()
    t.match(await sender.close(), { accepted: 1, queuedEvents: 0 })
    t.match(warnings, [/ended with 3 unsent events: 3 kept/, /ENOSPC/])
    rmSync(ownLock, { force: true })
    const next = await openToServer(t, { spool })
    await next.sender.flush()
    t.match(next.sender.stats(), { accepted: 3 }, 'spooled events are sent later')
  },
)

const noProc = !existsSync('/proc/self') && 'there is no /proc'
t.test('a spool below /proc is refused at once', { skip: noProc }, async (t) => {
  const program = `
    import { createClient } from '@ingest/client'
    const client = createClient({ url: 'http://127.0.0.1:9', projectId: 'p', key: 'k' })
    await client.close()
    const { createSender } = await import('@ingest/client')
    try { createSender(client, { spool: '/proc/x/spool' }) } catch ({ code, message }) { console.log(code, message) }`
  // Node's recursive mkdir never returns there
  const { status, stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    encoding: 'utf8',
    cwd: import.meta.dirname,
    env: { ...process.env, NODE_OPTIONS: '' },
    timeout: 30_000,
    killSignal: 'SIGKILL',
  })
  t.match({ status, stdout }, { status: 0, stdout: /^invalid-argument \/proc\/x cannot be a directory: ENOENT/ })
})

const noLimit = spawnSync('prlimit', ['--version']).status !== 0 && 'prlimit(1) is not installed'
t.test('a file size limit at the start is a full disk', { skip: noLimit }, async (t) => {
  const { spool } = await leaveSpool(t, 3)
  const warnings = warningsOf(t)
  const limit = (bytes: string) => spawnSync('prlimit', [`--fsize=${bytes}:`, '--pid', `${process.pid}`])
  // the test runner ends the process at this signal, which Node ignores
  process.on('SIGXFSZ', () => {})
  limit('0')
  const { sender } = await openToServer(t, { spool }).finally(() => limit('unlimited'))
  sender.send({ n: 4 })
  await sender.flush()
  t.match(await sender.close(), { accepted: 1, queuedEvents: 0 })
  t.match(warnings, [/ended with 3 unsent events: 3 kept/, /EFBIG/])
  const next = await openToServer(t, { spool })
  await next.sender.flush()
  t.match(next.sender.stats(), { accepted: 3 }, 'spooled events are sent later')
})

t.test('an error in a callback is a warning', async (t) => {
  const warnings = warningsOf(t)
  const fail = () => {
    throw new Error('in a callback')
  }
  const failLater = async () => fail()
  const { sender, sendAll, time } = await open(
    t,
    { queueEventsMax: 1, onDrop: fail, onRetry: failLater as never },
    problem(500, 'internal-error'),
    accept,
  )
  sendAll(1, 2)
  await time.pass(60_000)
  t.match(sender.stats(), { accepted: 1, dropped: { ...none, queue_overflow: 1 } })
  t.strictSame(warnings, Array(2).fill('A callback of the sender failed: Error: in a callback'))
})

t.test('invalid events and options throw', async (t) => {
  const { sender, client } = await open(t, {})
  t.throws(() => sender.send([] as never), { code: 'invalid-argument' })
  t.throws(() => sender.send({ eventId: 7 }), { code: 'invalid-argument', issues: [{ path: '/eventId' }] })
  t.equal(sender.stats().queuedEvents, 0)
  for (const name of ['flushMs', 'queueEventsMax', 'queueBytesMax']) {
    for (const value of [0, -1, 1.5, Number.NaN]) {
      t.throws(() => createSender(client, { [name]: value }), { code: 'invalid-argument', message: name })
    }
  }
  for (const deadlineMs of [-1, Number.NaN]) await t.rejects(sender.close({ deadlineMs }), { code: 'invalid-argument' })
})
