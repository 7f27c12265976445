import { connect } from 'node:net'
import { createAnswerReader } from './answer-reader.js'
import { createBatchPlan } from './batch-plan.js'
import { makeBatch, newSeed, stampBatch } from './make-batch.js'
import { processorTimePerEvent, readProcessorTime } from './processor-time.js'
import { percentile } from './statistics.js'

/**
 * @typedef {object} LoadOptions
 * @property {number} port
 * @property {Record<string, string>} [headers]
 * @property {string} projectId
 * @property {number} count events a batch
 * @property {number} connections
 * @property {number} seconds how long it is measured
 * @property {number} [warmupSeconds] how long it runs before that
 * @property {number} [repeatShare] of each batch, how much was sent before; half at most
 * @property {number} [resend] how many batches of `seed` were sent before and are all that is sent
 * @property {number} [batchesPerSecond] open loop: so many are due each second, whether or not the answers keep up
 * @property {import('./make-batch.js').Seed} [seed]
 * @property {4 | 7 | undefined} [idVersion] of the UUIDs; 4 without. Repeats need 4
 * @property {import('./processor-time.js').Watched} [watched] the process that takes the load
 */

/**
 * @typedef {object} LoadResult
 * @property {number} eventsPerSecond sent and answered rightly, new or not
 * @property {number} events
 * @property {number} batches
 * @property {number} p50Ms from a batch being due to its answer
 * @property {number} p90Ms
 * @property {number} p99Ms
 * @property {number} maxMs
 * @property {number} loadCpu how much of one core the load itself needed: near 1, it is the load that was measured
 * @property {import('./processor-time.js').ProcessorTime | undefined} [processor] of the process that takes the load, while it was
 *   measured, in microseconds an event
 * @property {import('./make-batch.js').Seed} seed
 * @property {number} [accepted] new events, warm-up included
 * @property {number} answered batches 0 to this one, not included, were all sent and answered, warm-up included
 */

const host = '127.0.0.1'
const path = '/v1/events/batch'
/** @type {import('./batch-plan.js').Planned} */
const nothingPlanned = { number: 0, repeats: undefined, accepted: 0 }
const answerTimeoutMs = 30_000
/** An open loop that has fallen so many batches behind is not at a rate that the server can hold. */
const dueMax = 10_000

/**
 * Sends batches over raw sockets with keep-alive and checks every answer.
 *
 * @param {LoadOptions} options
 * @returns {Promise<LoadResult>} rejects at the first answer that is not 202 with exactly what was new
 */
export async function sendLoad(options) {
  const {
    port,
    headers = {},
    projectId,
    count,
    connections,
    seconds,
    warmupSeconds = 0,
    batchesPerSecond,
    idVersion = 4,
  } = options
  const processorTime = () => options.watched && readProcessorTime(options.watched)
  const seed = options.seed ?? newSeed()
  const plan = createBatchPlan(options)
  const senders = await Promise.all(Array.from({ length: connections }, () => openSender()))
  /** @type {number[]} */
  const latenciesMs = []
  /** When the batches became due that wait for a connection; an open loop only. @type {number[]} */
  const due = []
  let released = 0
  let busy = 0
  let allAccepted = 0
  let isOver = false
  /** @type {() => void} */
  let onIdle = () => {}
  /** @type {(error: Error) => void} */
  let fail = () => {}
  const failed = new Promise((_, reject) => {
    fail = reject
  })
  failed.catch(() => {})

  const start = performance.now() + warmupSeconds * 1000
  let end = start + seconds * 1000
  let cpuBefore = process.cpuUsage()
  let processorBefore = processorTime()
  let processorAfter = processorBefore
  const warm = setTimeout(() => {
    cpuBefore = process.cpuUsage()
    processorBefore = processorTime()
  }, warmupSeconds * 1000)
  let loadCpu = 0

  try {
    if (batchesPerSecond === undefined) for (const sender of senders) sender.send(performance.now())
    else release(performance.now(), batchesPerSecond)
    await Promise.race([failed, sleep(end - performance.now())])
    // on a machine that is busy with something else, a short run may see no answer at all
    for (const latest = end + answerTimeoutMs; latenciesMs.length === 0 && end < latest; ) {
      end = performance.now() + seconds * 1000
      await Promise.race([failed, sleep(seconds * 1000)])
    }
    end = Math.min(end, performance.now())
    isOver = true
    processorAfter = processorTime()
    const cpu = process.cpuUsage(cpuBefore)
    loadCpu = (cpu.user + cpu.system) / 1000 / (end - start)
    if (busy > 0) {
      const idle = new Promise((resolve) => {
        onIdle = () => resolve(undefined)
      })
      await Promise.race([failed, idle, timeout(answerTimeoutMs, 'an answer did not come')])
    }
  } finally {
    isOver = true
    clearTimeout(warm)
    for (const sender of senders) sender.close()
  }
  if (latenciesMs.length === 0) throw new Error('nothing was answered while it was measured')
  const sorted = Float64Array.from(latenciesMs).sort()
  return {
    eventsPerSecond: (latenciesMs.length * count * 1000) / (end - start),
    events: latenciesMs.length * count,
    batches: latenciesMs.length,
    p50Ms: percentile(sorted, 0.5),
    p90Ms: percentile(sorted, 0.9),
    p99Ms: percentile(sorted, 0.99),
    maxMs: percentile(sorted, 1),
    loadCpu,
    processor: processorTimePerEvent(processorBefore, processorAfter, latenciesMs.length * count),
    seed,
    accepted: allAccepted,
    answered: Math.min(...senders.map((sender) => sender.nextNumber())),
  }

  /** Lets batches become due, at an even pace. @param {number} origin @param {number} perSecond */
  function release(origin, perSecond) {
    if (isOver) return
    const now = performance.now()
    for (; released < ((now - origin) / 1000) * perSecond; released++) due.push(now)
    if (due.length > dueMax) return fail(new Error(`${perSecond} batches a second are more than the server can hold`))
    // in turn, as Node closes a connection with 408 that stays unused after opening
    for (let left = senders.length; left > 0 && due.length > 0; left--) {
      const sender = /** @type {typeof senders[number]} */ (senders.shift())
      senders.push(sender)
      if (sender.isIdle()) sender.send(/** @type {number} */ (due.shift()))
    }
    setTimeout(release, 1, origin, perSecond)
  }

  async function openSender() {
    const socket = connect({ host, port, noDelay: true })
    await new Promise((resolve, reject) => socket.once('connect', () => resolve(undefined)).once('error', reject))
    // one is under way while the other is made ready
    let [ready, sent] = [prepare(newRequest()), newRequest()]
    let isIdle = true
    let sentAt = 0
    const read = createAnswerReader(({ status, body }) => {
      const now = performance.now()
      if (now >= start && now < end) latenciesMs.push(now - sentAt)
      const { accepted } = sent.planned
      if (isIdle || !isRight(status, body, accepted, count)) {
        return fail(
          new Error(`a wrong answer, of ${count} events ${accepted} were new: ${status} ${body.slice(0, 500)}`),
        )
      }
      plan.answered(sent.planned)
      allAccepted += accepted
      isIdle = true
      busy--
      if (isOver) {
        if (busy === 0) onIdle()
        return
      }
      const next = batchesPerSecond === undefined ? now : due.shift()
      if (next !== undefined) send(next)
    })
    socket.on('data', (/** @type {Buffer} */ piece) => {
      try {
        read(piece)
      } catch (error) {
        fail(/** @type {Error} */ (error))
      }
    })
    socket.on('error', (error) => fail(error))
    socket.on('close', () => {
      if (!isIdle) fail(new Error('the server closed a connection before it had answered'))
    })

    /** @param {number} dueAt */
    function send(dueAt) {
      const request = ready
      isIdle = false
      busy++
      sentAt = dueAt
      socket.write(request.batch.bytes)
      ready = sent
      sent = request
      // made ready now, while the server works; what it repeats must have been answered before
      prepare(ready)
    }

    return { send, isIdle: () => isIdle, nextNumber: () => ready.planned.number, close: () => socket.destroy() }
  }

  function newRequest() {
    const lines = Object.entries({ Host: `${host}:${port}`, 'Content-Type': 'application/json', ...headers })
    const text = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')
    const head = (/** @type {number} */ length) => `POST ${path} HTTP/1.1\r\n${text}Content-Length: ${length}\r\n\r\n`
    return { batch: makeBatch(projectId, count, { head, idVersion }), planned: nothingPlanned }
  }

  /** @param {ReturnType<typeof newRequest>} request */
  function prepare(request) {
    request.planned = plan.next()
    stampBatch(request.batch, seed, request.planned.number, request.planned.repeats)
    return request
  }
}

/** @param {number} status @param {string} body @param {number} accepted @param {number} count */
function isRight(status, body, accepted, count) {
  if (status !== 202) return false
  try {
    const answer = JSON.parse(body)
    return answer.accepted === accepted && answer.duplicates === count - accepted && answer.rejected.length === 0
  } catch {
    return false
  }
}

/** @param {number} ms */
function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** @param {number} ms @param {string} what */
function timeout(ms, what) {
  return new Promise((_, reject) => setTimeout(() => reject(new Error(`${what} in ${ms / 1000} s`)), ms).unref())
}
