import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { serveCalls } from '../contenders/serve-calls.js'
import { makeBatch, newSeed, stampBatch } from '../load/make-batch.js'
import { createResponseReader } from '../load/response-reader.js'
import { headOf } from '../load/send-load.js'
import { percentile } from '../report/statistics.js'

// The honest senders and the prober of /livez, in a process of their own.

/**
 * @typedef {object} Honest
 * @property {number} eventsPerSecond acknowledged during the measurement
 * @property {number} refusals responses other than 202
 * @property {Latencies} batch from the sending of a batch to its response
 * @property {Latencies} livez from the due time of a probe to its response
 * @property {number} unanswered probes without a response in time; their latency is the time that they were open
 */

/** @typedef {{ p50Ms: number, p99Ms: number, maxMs: number }} Latencies */

const host = '127.0.0.1'
/** Below the default limit of 100 requests a second, so that an honest sender is never refused. */
const batchesPerSecondMax = 95
const connectionsPerSender = 4
const probeEveryMs = 50
/** How long the prober waits for unanswered probes. */
const probeGraceMs = 10_000
const reconnectMs = 50
/** The longest pause, even if the server asks for more, so that it ends within a short measurement. */
const retryMsMax = 1000

let port = 0
/** @type {Record<string, string>[]} */
let credentials = []
let eventsPerBatch = 100
/** @type {ReturnType<typeof startSender>[]} */
let senders = []

serveCalls({
  start(options) {
    port = options.port
    credentials = options.credentials
    eventsPerBatch = options.eventsPerBatch ?? eventsPerBatch
  },

  /** Starts the senders; resolves once they are connected. */
  async connect() {
    senders = credentials.map(startSender)
    while (sum(senders, 'acknowledged') < senders.length) await sleep(10)
  },

  /** Measures the senders and stops them. @returns {Promise<Honest>} */
  async measure({ seconds, warmupSeconds }) {
    await sleep(warmupSeconds * 1000)
    const acknowledgedBefore = sum(senders, 'acknowledged')
    const start = performance.now()
    const prober = startProber()
    for (const { latenciesMs } of senders) latenciesMs.length = 0
    await sleep(seconds * 1000)
    const elapsedSeconds = (performance.now() - start) / 1000
    const acknowledged = sum(senders, 'acknowledged') - acknowledgedBefore
    const batch = latenciesOf(senders.flatMap(({ latenciesMs }) => latenciesMs))
    const probed = await prober.stop()
    for (const sender of senders) sender.stop()
    return {
      eventsPerSecond: (acknowledged * eventsPerBatch) / elapsedSeconds,
      refusals: sum(senders, 'refusals'),
      batch,
      ...probed,
    }
  },
})

/** @param {ReturnType<typeof startSender>[]} senders @param {'acknowledged' | 'refusals'} name */
function sum(senders, name) {
  return senders.reduce((total, { counts }) => total + counts[name], 0)
}

/**
 * A closed loop on a few connections, below the rate limit. Batches that were not acknowledged are sent again.
 *
 * @param {Record<string, string>} headers
 */
function startSender(headers) {
  const counts = { acknowledged: 0, refusals: 0 }
  /** @type {number[]} */
  const latenciesMs = []
  let isOver = false
  let dueAt = performance.now()
  const seed = newSeed()
  let lastNumber = 0
  /** @type {Set<import('node:net').Socket>} */
  const sockets = new Set()
  for (let i = 0; i < connectionsPerSender; i++) open(newRequest())

  /** @param {ReturnType<typeof newRequest>} request */
  function open(request) {
    if (isOver) return
    const socket = connect({ host, port, noDelay: true })
    sockets.add(socket)
    let sentAt = 0
    const send = () => {
      sentAt = performance.now()
      socket.write(request.bytes)
    }
    const read = createResponseReader(({ status, body }) => {
      latenciesMs.push(performance.now() - sentAt)
      if (status === 202) {
        counts.acknowledged++
        stampBatch(request, seed, lastNumber++)
        dueAt = Math.max(dueAt + 1000 / batchesPerSecondMax, performance.now() - 100)
        setTimeout(send, dueAt - performance.now())
      } else {
        counts.refusals++
        setTimeout(send, retryMsOf(body))
      }
    })
    socket.on('connect', send).on('data', read).on('error', ignore)
    socket.on('close', () => {
      sockets.delete(socket)
      setTimeout(open, reconnectMs, request)
    })
  }

  function newRequest() {
    const head = headOf({ Host: host, ...headers })
    const batch = makeBatch(headers['X-Project-Id'] ?? '', eventsPerBatch, { head })
    stampBatch(batch, seed, lastNumber++)
    return batch
  }

  return {
    counts,
    latenciesMs,
    stop() {
      isOver = true
      for (const socket of sockets) socket.destroy()
    },
  }
}

/** @param {string} body */
function retryMsOf(body) {
  try {
    return Math.min(retryMsMax, (JSON.parse(body).retryAfter ?? 0) * 1000)
  } catch {
    return 0
  }
}

/** Probes at a fixed rate. Opens another connection if none is idle, so that a slow response does not delay other probes. */
function startProber() {
  /** @type {Set<number>} due times of unanswered probes */
  const open = new Set()
  /** @type {((dueAt: number) => void)[]} */
  const idle = []
  /** @type {Set<import('node:net').Socket>} */
  const sockets = new Set()
  /** @type {number[]} */
  const latenciesMs = []
  let dueAt = performance.now()
  const timer = setInterval(() => {
    for (; dueAt <= performance.now(); dueAt += probeEveryMs) probe(dueAt)
  }, probeEveryMs / 5)

  /** @param {number} dueAt */
  function probe(dueAt) {
    open.add(dueAt)
    const ask = idle.pop()
    if (ask) ask(dueAt)
    else openProbe(dueAt)
  }

  /** @param {number} first due time of its first probe */
  function openProbe(first) {
    let dueAt = first
    const socket = connect({ host, port, noDelay: true })
    sockets.add(socket)
    const send = () => void socket.write(`GET /livez HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    /** @param {number} next */
    const ask = (next) => {
      dueAt = next
      send()
    }
    const read = createResponseReader(() => {
      latenciesMs.push(performance.now() - dueAt)
      open.delete(dueAt)
      idle.push(ask)
    })
    // a probe whose connection breaks stays unanswered
    socket.on('connect', send).on('data', read).on('error', ignore)
    socket.on('close', () => {
      const at = idle.indexOf(ask)
      if (at !== -1) idle.splice(at, 1)
    })
  }

  return {
    async stop() {
      clearInterval(timer)
      const latest = performance.now() + probeGraceMs
      while (open.size > 0 && performance.now() < latest) await sleep(10)
      const unanswered = open.size
      const stillOpen = Array.from(open, (dueAt) => performance.now() - dueAt)
      for (const socket of sockets) socket.destroy()
      return { livez: latenciesOf([...latenciesMs, ...stillOpen]), unanswered }
    },
  }
}

/** @param {number[]} latenciesMs @returns {Latencies} */
function latenciesOf(latenciesMs) {
  if (latenciesMs.length === 0) return { p50Ms: Number.NaN, p99Ms: Number.NaN, maxMs: Number.NaN }
  const sorted = Float64Array.from(latenciesMs).sort()
  return { p50Ms: percentile(sorted, 0.5), p99Ms: percentile(sorted, 0.99), maxMs: percentile(sorted, 1) }
}

function ignore() {}
