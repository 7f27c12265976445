// A small sender in the program of `ingest conformance`, with the bug that its argument names.
// @ts-check
import { randomUUID } from 'node:crypto'
import { request } from 'node:http'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

const [bug] = process.argv.slice(2)
const countMax = bug === 'large-batches' ? 201 : 100
const env = /** @type {Record<string, string>} */ (process.env)
const scale = Number(env.INGEST_TIME_SCALE)
const counts = {
  accepted: 0,
  duplicates: 0,
  rejected: 0,
  dropped: /** @type {Record<string, number>} */ ({}),
  unsent: 0,
}
const batchBytesMax = 262_144
const hourMs = 3_600_000

/** @type {string[]} */
const queue = []
/** @type {Promise<void> | undefined} */
let running
/** @type {NodeJS.Timeout | undefined} */
let timer
let due = 0
let deadlineAt = Number.POSITIVE_INFINITY
const ending = new AbortController()

/** @param {string} reason @param {number} count */
function drop(reason, count = 1) {
  counts.dropped[reason] = (counts.dropped[reason] ?? 0) + count
}

/** @param {string} text */
const sizeOf = (text) => (bug === 'count-characters' ? text.length : Buffer.byteLength(text))

/** @param {string} line */
function send(line) {
  const event = JSON.stringify({ projectId: env.INGEST_PROJECT_ID, eventId: randomUUID(), ...JSON.parse(line) })
  if (sizeOf(event) + 13 > batchBytesMax) return drop('too_large')
  if (queue.length >= Number(env.INGEST_QUEUE_EVENTS) && bug !== 'unbounded-queue') return drop('queue_overflow')
  if (bug === 'newest-first' && running) queue.unshift(event)
  else queue.push(event)
  timer ??= setTimeout(() => flush(), Number(env.INGEST_FLUSH_MS))
  if (queue.length >= countMax || queue.join().length >= batchBytesMax - 13) wake()
}

function flush() {
  clearTimeout(timer)
  timer = undefined
  due = queue.length
  return wake()
}

function wake() {
  running ??= sendBatches().finally(() => {
    running = undefined
  })
  if (bug === 'two-in-flight') return sendBatches()
  return running
}

async function sendBatches() {
  while (!ending.signal.aborted) {
    const batch = takeBatch()
    if (batch.length === 0) return
    await sendBatch(batch)
  }
}

function takeBatch() {
  let count = 0
  let size = 13
  while (count < Math.min(queue.length, countMax) && size + sizeOf(queue[count] ?? '') <= batchBytesMax) {
    size += sizeOf(queue[count++] ?? '') + 1
  }
  const isFull = count === countMax || count < queue.length
  if (!isFull && due === 0) return []
  due = Math.max(0, due - count)
  return queue.splice(0, count)
}

/** @param {string[]} batch */
async function sendBatch(batch) {
  let rangeMs = 1000
  for (let attempt = 0; ; attempt++) {
    const body = `{"events":[${batch}]${bug === 'other-bytes' ? `,"attempt":${attempt}` : ''}}`
    const { status, headers, text } = await post(env.INGEST_URL ?? '', body)
    if (ending.signal.aborted) return drop('closed', batch.length)
    if (status === 202 && settle(text, batch.length)) return
    if (status === 400 || (status === 500 && bug === 'drop-500')) return drop('bad_request', batch.length)
    if (status === 413) return drop('too_large', batch.length)
    if (status === 404 && bug === 'drop-404') return drop('bad_request', batch.length)
    const isPaused = (status === 401 || status === 403) && bug !== 'retry-401'
    const backoffMs = bug === 'no-jitter' ? rangeMs : Math.random() * rangeMs
    rangeMs = Math.min(rangeMs * 2, bug === 'unbounded-backoff' ? Number.POSITIVE_INFINITY : 60_000)
    if (bug === 'constant-backoff') rangeMs = 1000
    await pause(isPaused ? 300_000 : backoffMs + retryAfterMs(headers['retry-after']))
    if (ending.signal.aborted) return drop('closed', batch.length)
  }
}

/** @param {string} text @param {number} count */
function settle(text, count) {
  let result
  try {
    result = JSON.parse(text)
    const { accepted, duplicates, rejected } = result
    if (accepted + duplicates + rejected.length !== count) throw new Error('not the result of this batch')
  } catch {
    if (bug !== 'any-202') return false
    result = { accepted: count, duplicates: 0, rejected: [] }
  }
  counts.accepted += result.accepted
  counts.duplicates += result.duplicates
  counts.rejected += result.rejected.length
  return true
}

/** @param {string | undefined} value */
function retryAfterMs(value) {
  if (value === undefined || bug === 'ignore-retry-after') return 0
  if (bug === 'ignore-date' && !/^\d+$/.test(value)) return 0
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now()
  return Math.min(Math.max(0, ms || 0), bug === 'unbounded-retry-after' ? Number.POSITIVE_INFINITY : hourMs)
}

/** @param {number} ms */
async function pause(ms) {
  const scaled = Math.min(ms * scale, 2 ** 31 - 1)
  if (performance.now() + scaled >= deadlineAt) ending.abort()
  await sleep(scaled, undefined, { signal: ending.signal }).catch(() => {})
}

/**
 * @param {string} url
 * @param {string} body
 * @returns {Promise<{ status: number, headers: import('node:http').IncomingHttpHeaders, text: string }>}
 */
function post(url, body) {
  const headers = {
    'X-Project-Id': env.INGEST_PROJECT_ID,
    'X-Ingestion-Key': env.INGEST_KEY,
    'Content-Type': 'application/json',
  }
  return new Promise((resolve) => {
    const signals = [ending.signal]
    if (bug !== 'no-time-out') signals.push(AbortSignal.timeout(Number(env.INGEST_TIMEOUT_MS)))
    const fail = () => resolve({ status: 0, headers: {}, text: '' })
    const options = { method: 'POST', headers, agent: false, signal: AbortSignal.any(signals) }
    const req = request(url.includes('/v1/') ? url : `${url}/v1/events/batch`, options, (res) => {
      const { statusCode: status = 0, headers } = res
      if (headers.location && status < 400 && bug === 'follow-redirects') {
        res.resume()
        return post(headers.location, body).then(resolve)
      }
      let text = ''
      res.on('data', (chunk) => {
        text += chunk
        if (text.length > 1_000_000 && bug !== 'unbounded-body') req.destroy()
      })
      res.on('end', () => resolve({ status, headers, text }))
      res.on('error', fail)
      res.on('close', fail)
    })
    req.on('error', fail)
    req.end(body)
  })
}

for await (const line of createInterface(process.stdin)) {
  if (line === '' && bug !== 'no-flush') await flush()
  else if (line !== '') send(line)
}
const closeMs = Number(env.INGEST_CLOSE_MS)
deadlineAt = performance.now() + closeMs
const deadline = setTimeout(() => bug !== 'no-deadline' && ending.abort(), closeMs)
if (bug === 'no-drain') ending.abort()
await flush()
clearTimeout(deadline)
clearTimeout(timer)
drop('closed', queue.length)
if (bug === 'miscount') counts.accepted++
console.log(bug === 'no-counts' ? 'done' : JSON.stringify(counts))
if (bug === 'no-end') setTimeout(() => {}, 1e9)
