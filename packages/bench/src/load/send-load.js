import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { processorTimePerEvent, readProcessorTime } from '../contenders/processor-time.js'
import { percentile } from '../report/statistics.js'
import { makeBatch, newSeed, stampBatch } from './make-batch.js'
import { createResponseReader } from './response-reader.js'

/**
 * @typedef {object} LoadOptions
 * @property {number} port
 * @property {Record<string, string>} [headers]
 * @property {string} projectId
 * @property {number} count events per batch
 * @property {number} connections
 * @property {number} seconds measured
 * @property {number} [warmupSeconds] before the measured ones
 * @property {number} [repeatShare] share of each batch that repeats earlier events; at most half
 * @property {number} [resend] number of batches of `seed` that were sent before; only these are sent
 * @property {number} [batchesPerSecond] open loop: batches become due at this rate, regardless of responses
 * @property {import('./make-batch.js').Seed} [seed]
 * @property {4 | 7 | undefined} [idVersion] of the UUIDs. Default 4, which repeats need
 * @property {import('../contenders/processor-time.js').Watched} [watched] the process that takes the load
 */

/**
 * @typedef {object} LoadResult
 * @property {number} eventsPerSecond sent and acknowledged, new or not
 * @property {number} events
 * @property {number} batches
 * @property {number} p50Ms from the due time of a batch to its response
 * @property {number} p90Ms
 * @property {number} p99Ms
 * @property {number} maxMs
 * @property {number} loadCpu cores that the load itself used: near 1, the load was the bottleneck
 * @property {import('../contenders/processor-time.js').ProcessorTime | undefined} [processor] of the watched process, in
 *   microseconds per event
 * @property {import('./make-batch.js').Seed} seed
 * @property {number} [accepted] new events, warm-up included
 * @property {number} answered all batches below this number were acknowledged, warm-up included
 */

/**
 * The next batch of a run; `accepted` is how many of its events must be new.
 *
 * @typedef {{ number: number, repeats: import('./make-batch.js').Repeats | undefined, accepted: number }} Planned
 */

const host = '127.0.0.1'
const responseTimeoutMs = 30_000
/** The run fails if so many batches of an open loop are due: the server cannot keep up. */
const dueMax = 10_000

/**
 * Sends batches over raw sockets with keep-alive and checks every response.
 *
 * @param {LoadOptions} options
 * @returns {Promise<LoadResult>} rejects at the first response that is not 202 with exactly the new events accepted
 */
export async function sendLoad(options) {
  const { connections, count, seconds, warmupSeconds = 0, batchesPerSecond } = options
  const load = createLoad(options)
  const senders = await Promise.all(Array.from({ length: connections }, () => openSender(load)))
  const orFail = (/** @type {Promise<unknown>} */ promise) => Promise.race([load.failed, promise])
  try {
    if (batchesPerSecond === undefined) for (const sender of senders) sender.send(performance.now())
    else releaseDue(load, senders, { origin: performance.now(), batchesPerSecond })
    await orFail(sleep(warmupSeconds * 1000))
    load.latenciesMs.length = 0
    const start = performance.now()
    const cpuBefore = process.cpuUsage()
    const processorBefore = readWatched(options)
    // on a busy machine, a short run may get its first response late
    for (const latest = start + responseTimeoutMs; load.latenciesMs.length === 0 && performance.now() < latest; ) {
      await orFail(sleep(seconds * 1000))
    }
    const elapsedMs = performance.now() - start
    const processorAfter = readWatched(options)
    const { user, system } = process.cpuUsage(cpuBefore)
    const sorted = Float64Array.from(load.latenciesMs).sort()
    if (sorted.length === 0) throw new Error('no batch was acknowledged while it was measured')
    await orFail(load.drain())
    return {
      ...summarizeLatencies(sorted, { count, elapsedMs }),
      loadCpu: (user + system) / 1000 / elapsedMs,
      processor: processorTimePerEvent(processorBefore, processorAfter, sorted.length * count),
      seed: load.seed,
      accepted: load.accepted,
      answered: Math.min(...senders.map((sender) => sender.nextNumber())),
    }
  } finally {
    load.isOver = true
    for (const sender of senders) sender.close()
  }
}

/** @param {LoadOptions} options */
function readWatched({ watched }) {
  return watched && readProcessorTime(watched)
}

/** @param {Float64Array} sorted @param {{ count: number, elapsedMs: number }} options */
function summarizeLatencies(sorted, { count, elapsedMs }) {
  return {
    eventsPerSecond: (sorted.length * count * 1000) / elapsedMs,
    events: sorted.length * count,
    batches: sorted.length,
    p50Ms: percentile(sorted, 0.5),
    p90Ms: percentile(sorted, 0.9),
    p99Ms: percentile(sorted, 0.99),
    maxMs: percentile(sorted, 1),
  }
}

/** @typedef {ReturnType<typeof createLoad>} Load */

/** The state that the connections of a run share. @param {LoadOptions} options */
function createLoad(options) {
  /** @type {(error: Error) => void} */
  let fail = () => {}
  const failed = new Promise((_, reject) => {
    fail = reject
  })
  failed.catch(() => {})
  const load = {
    options,
    seed: options.seed ?? newSeed(),
    plan: createBatchPlan(options),
    /** @type {number[]} */
    latenciesMs: [],
    /** Open loop only: the due times of batches that wait for a connection. @type {number[]} */
    due: [],
    accepted: 0,
    inFlight: 0,
    isOver: false,
    fail,
    failed,
    /** Stops sending, and resolves when every batch in flight is acknowledged. */
    async drain() {
      load.isOver = true
      for (const latest = performance.now() + responseTimeoutMs; load.inFlight > 0; await sleep(1)) {
        if (performance.now() > latest) throw new Error(`no response in ${responseTimeoutMs / 1000} s`)
      }
    },
  }
  return load
}

/**
 * Plans the batches of a run: all new; a share of each batch repeated from acknowledged ones; or only acknowledged ones.
 *
 * @param {{ count: number, repeatShare?: number, resend?: number }} options as of {@link LoadOptions}
 */
export function createBatchPlan({ count, repeatShare = 0, resend = 0 }) {
  const repeated = Math.round(count * repeatShare)
  if (repeated * 2 > count) throw new Error('at most half of a batch can be repeats')
  /** @type {number[]} */
  const acknowledged = []
  let nextNumber = 0
  return {
    /** @returns {Planned} */
    next() {
      const number = nextNumber++
      if (resend > 0) return { number: number % resend, repeats: undefined, accepted: 0 }
      const source = repeated > 0 ? acknowledged[Math.floor(Math.random() * acknowledged.length)] : undefined
      if (source === undefined) return { number, repeats: undefined, accepted: count }
      // the events after the repeats of a batch were new
      return { number, repeats: { batch: source, at: repeated, count: repeated }, accepted: count - repeated }
    },
    /** @param {Planned} planned */
    acknowledge({ number }) {
      if (repeated > 0) acknowledged.push(number)
    },
  }
}

/**
 * Makes batches due at an even pace, and hands them to idle connections.
 *
 * @param {Load} load @param {Sender[]} senders @param {{ origin: number, batchesPerSecond: number }} pace
 */
function releaseDue(load, senders, { origin, batchesPerSecond }) {
  let released = 0
  const release = () => {
    if (load.isOver) return
    const now = performance.now()
    for (; released < ((now - origin) / 1000) * batchesPerSecond; released++) load.due.push(now)
    if (load.due.length > dueMax) {
      return load.fail(new Error(`${batchesPerSecond} batches a second are more than the server can hold`))
    }
    // in turn, because Node.js closes a new connection that stays unused, with 408
    for (let left = senders.length; left > 0 && load.due.length > 0; left--) {
      const sender = /** @type {Sender} */ (senders.shift())
      senders.push(sender)
      if (sender.isIdle()) sender.send(/** @type {number} */ (load.due.shift()))
    }
    setTimeout(release, 1)
  }
  release()
}

/** @typedef {Awaited<ReturnType<typeof openSender>>} Sender */

/** A connection with one batch in flight at a time, and the next one ready. @param {Load} load */
async function openSender(load) {
  const { options, plan, fail } = load
  const socket = connect({ host, port: options.port, noDelay: true })
  await new Promise((resolve, reject) => socket.once('connect', () => resolve(undefined)).once('error', reject))
  let [ready, sent] = [createRequest(load), createRequest(load)]
  ready.prepare()
  let isIdle = true
  let sentAt = 0
  const read = createResponseReader((response) => {
    const now = performance.now()
    if (isIdle || !isRight(response, sent.planned, options.count)) return fail(wrongResponse(response, sent.planned))
    load.latenciesMs.push(now - sentAt)
    plan.acknowledge(sent.planned)
    load.accepted += sent.planned.accepted
    load.inFlight--
    isIdle = true
    const next = options.batchesPerSecond === undefined ? now : load.due.shift()
    if (!load.isOver && next !== undefined) send(next)
  })
  socket.on('data', (/** @type {Buffer} */ chunk) => {
    try {
      read(chunk)
    } catch (error) {
      fail(/** @type {Error} */ (error))
    }
  })
  socket.on('error', fail)
  socket.on('close', () => {
    if (!isIdle) fail(new Error('the server closed a connection before its response'))
  })

  /** @param {number} dueAt */
  function send(dueAt) {
    isIdle = false
    load.inFlight++
    sentAt = dueAt
    socket.write(ready.bytes)
    ;[ready, sent] = [sent, ready]
    // prepared while the server works
    ready.prepare()
  }

  return { send, isIdle: () => isIdle, nextNumber: () => ready.planned.number, close: () => socket.destroy() }
}

/** A request whose batch is changed in place. @param {Load} load */
function createRequest({ options, plan, seed }) {
  const { port, headers, projectId, count, idVersion = 4 } = options
  const batch = makeBatch(projectId, count, { head: headOf({ Host: `${host}:${port}`, ...headers }), idVersion })
  const request = {
    bytes: batch.bytes,
    /** @type {Planned} */
    planned: { number: 0, repeats: undefined, accepted: 0 },
    prepare() {
      request.planned = plan.next()
      stampBatch(batch, seed, request.planned.number, request.planned.repeats)
    },
  }
  return request
}

/** The head of a POST of events. @param {Record<string, string>} headers @returns {(bodyBytes: number) => string} */
export function headOf(headers) {
  const lines = Object.entries({ 'Content-Type': 'application/json', ...headers })
  const text = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  return (length) => `POST /v1/events/batch HTTP/1.1\r\n${text}Content-Length: ${length}\r\n\r\n`
}

/** @param {import('./response-reader.js').Response} response @param {Planned} planned @param {number} count */
function isRight({ status, body }, { accepted }, count) {
  if (status !== 202) return false
  try {
    const result = JSON.parse(body)
    return result.accepted === accepted && result.duplicates === count - accepted && result.rejected.length === 0
  } catch {
    return false
  }
}

/** @param {import('./response-reader.js').Response} response @param {Planned} planned */
function wrongResponse({ status, body }, { accepted }) {
  return new Error(`a wrong response where ${accepted} events were new: ${status} ${body.slice(0, 500)}`)
}
