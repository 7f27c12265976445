// A small sender as a program for `ingest conformance`, with the bug that its argument names.
// @ts-check
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { connect, createServer } from 'node:net'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'

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
const batchBytesMax = bug === 'limit-plus-one' ? 262_145 : 262_144
const hourMs = 3_600_000

const key = bug === 'trim-key' ? env.INGEST_KEY?.trim() : env.INGEST_KEY
if (/[\r\n]/.test(key ?? '')) throw new Error(bug === 'quote-key' ? `not a key: ${key}` : 'not a key')

/** @type {string[]} */
const queue = []
let queueBytes = 0
/** The file of each event. @type {Map<string, string>} */
const paths = new Map()
const hasSpool = env.INGEST_SPOOL && bug !== 'no-spool'
const spool = hasSpool ? (bug === 'relative-spool' ? env.INGEST_SPOOL : resolve(env.INGEST_SPOOL ?? '')) : undefined
let fileNumber = 0
/** Makes file names unique, because another program may use the spool after it was deleted. */
const ownName = bug === 'shared-names' ? '' : `-${randomUUID()}`
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

/** Locks the spool with a socket, which ends with the process and cannot be mistaken for that of another process. */
async function lockSpool() {
  if (!spool) return
  mkdirSync(spool, { recursive: true })
  const path = join(spool, 'lock')
  if (bug === 'no-lock') return
  if (bug === 'timed-lock') return beat(path)
  const server = createServer().unref()
  for (let tries = 0; ; tries++) {
    try {
      await once(server.listen(path), 'listening')
      return
    } catch (error) {
      const holder = connect(path)
      const isHeld = await once(holder, 'connect').then(
        () => true,
        () => false,
      )
      holder.destroy()
      if (isHeld || tries > 0) throw error
      rmSync(path, { force: true })
    }
  }
}

/** Holds a lock by heartbeat, as long as its file is written. @param {string} path */
function beat(path) {
  const age = Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0)
  if (age < 1000) throw new Error('the spool is in use')
  writeFileSync(path, '')
  setInterval(() => writeFileSync(path, ''), 100).unref()
}

/** Reads the events of an earlier process. */
function loadSpool() {
  if (!spool) return
  for (const name of readdirSync(spool).sort()) {
    if (name === 'lock') continue
    const path = join(spool, name)
    const event = readFileSync(path, 'utf8')
    if (!isJson(event)) {
      if (bug === 'stop-at-damage') return
      drop('damaged')
      rmSync(path)
      continue
    }
    queue.push(event)
    queueBytes += sizeOf(event)
    paths.set(event, path)
    fileNumber = Math.max(fileNumber, Number.parseInt(name, 10))
  }
}

/** @param {string} text */
function isJson(text) {
  try {
    return JSON.parse(text) !== null
  } catch {
    return false
  }
}

/** Creates a deleted spool again, without its lock: tests start no second program then. */
function renewSpool() {
  if (!spool || existsSync(spool) || bug === 'deleted-spool') return
  mkdirSync(spool, { recursive: true })
  for (const [event, path] of paths) writeFileSync(path, event)
}

/** @param {string} event */
function writeToSpool(event) {
  renewSpool()
  if (!spool || paths.has(event)) return
  const number = String(++fileNumber)
  const path = join(spool, `${bug === 'unsorted-spool' ? number : number.padStart(9, '0')}${ownName}`)
  paths.set(event, path)
  try {
    writeFileSync(path, event)
  } catch {
    // the event stays in memory only
  }
}

/** @param {string[]} batch */
function removeFromSpool(batch) {
  for (const event of batch) {
    rmSync(paths.get(event) ?? '', { force: true })
    paths.delete(event)
  }
}

/** Counts events that `close` leaves unsent. @param {number} count */
function leave(count) {
  renewSpool()
  if (spool) counts.unsent += count
  else drop('closed', count)
}

/** @param {string} text */
const sizeOf = (text) => (bug === 'count-characters' ? text.length : Buffer.byteLength(text))

/** @param {string} line */
function send(line) {
  const own = { projectId: env.INGEST_PROJECT_ID }
  const given = { ...own, eventId: randomUUID(), ...JSON.parse(line), ...(bug === 'own-project' && own) }
  const event = JSON.stringify(given)
  if (sizeOf(event) + 13 > batchBytesMax) return drop('too_large')
  if (queue.length >= Number(env.INGEST_QUEUE_EVENTS) && bug !== 'unbounded-queue') return drop('queue_overflow')
  const bytes = queueBytes + sizeOf(event)
  const isBounded = bug !== 'unbounded-bytes' && !(bug === 'unbounded-spool' && spool)
  if (bytes > Number(env.INGEST_QUEUE_BYTES) && isBounded) return drop('queue_overflow')
  queueBytes = bytes
  if (bug === 'newest-first' && running) queue.unshift(event)
  else queue.push(event)
  if (bug !== 'late-spool') writeToSpool(event)
  if (bug === 'debounce') clearTimeout(timer)
  if (bug === 'debounce') timer = undefined
  timer ??= setTimeout(() => flush(), Number(env.INGEST_FLUSH_MS))
  if (bug === 'wake-early') endPause.abort()
  if (queue.length >= countMax || queueBytes + queue.length > batchBytesMax - 13) wake()
}

function flush() {
  if (bug === 'endless-flush' && queue.length === 0 && !running) return new Promise(() => {})
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
  const batch = queue.splice(0, count)
  queueBytes -= sizeOf(batch.join(''))
  for (const event of batch) writeToSpool(event)
  return batch
}

let rangeMs = 1000
let seed = bug === 'seed-by-minute' ? Math.floor(Date.now() / 60_000) : 1

/** A random number, the same in each process with the same seed. */
function random() {
  if (bug !== 'fixed-seed' && bug !== 'seed-by-minute') return Math.random()
  seed = (seed * 48_271) % (2 ** 31 - 1)
  return seed / (2 ** 31 - 1)
}

/** @param {string[]} batch */
async function sendBatch(batch) {
  if (bug !== 'keep-backoff') rangeMs = 1000
  for (let attempt = 0; ; attempt++) {
    const body = `{"events":[${batch}]${bug === 'other-bytes' ? `,"attempt":${attempt}` : ''}}`
    const { status, headers, text } = await post(env.INGEST_URL ?? '', body)
    if (bug === 'raw-log' && status !== 202) console.error(text)
    if (bug === 'early-mask') console.error(detailOf(text.replaceAll(key ?? '', '[key]')))
    if (bug === 'late-mask') console.error(text.slice(0, 200).replaceAll(key ?? '', '[key]'))
    if (ending.signal.aborted) return leave(batch.length)
    if (status === 202 && settle(text, batch.length)) return removeFromSpool(batch)
    if (status === 413 && bug === 'halve' && batch.length > 1) {
      const middle = batch.length >> 1
      for (const part of [batch.slice(0, middle), batch.slice(middle)]) await sendBatch(part)
      return
    }
    if (status === 0 && bug === 'no-pause') {
      await nextTurn()
      continue
    }
    const reason = bug === 'give-up' && attempt === 99 ? 'bad_request' : reasonOf(status)
    if (reason) {
      drop(reason, batch.length)
      return bug === 'keep-dropped' || removeFromSpool(batch)
    }
    if (status === 401 && bug === 'log-key') console.error(`the server refuses ${key}`)
    const isPaused = (status === 401 || status === 403) && bug !== 'retry-401'
    const isEager = bug === 'eager' && attempt === 0
    const backoffMs = isEager ? 0 : bug === 'no-jitter' ? rangeMs : random() * rangeMs
    rangeMs = Math.min(rangeMs * 2, bug === 'unbounded-backoff' ? Number.POSITIVE_INFINITY : 60_000)
    if (bug === 'constant-backoff') rangeMs = 1000
    const isHonoured = bug !== 'retry-after-of-two' || status === 429 || status === 503
    await pause(isPaused ? 300_000 : backoffMs + retryAfterMs(isHonoured ? headers['retry-after'] : undefined))
    if (ending.signal.aborted) return leave(batch.length)
  }
}

/** The detail of a problem document. @param {string} text */
function detailOf(text) {
  try {
    return JSON.parse(text).detail
  } catch {
    return ''
  }
}

/** Why a batch is dropped; undefined if it is sent again. @param {number} status */
function reasonOf(status) {
  if (status === 422 && bug === 'drop-422') return 'bad_request'
  if (status === 400 || (status === 500 && bug === 'drop-500')) return 'bad_request'
  return status === 413 ? 'too_large' : undefined
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
  if (bug === 'resend-rejected' && result.rejected.length === count) return false
  counts.accepted += result.accepted
  counts.duplicates += result.duplicates
  counts.rejected += result.rejected.length
  return true
}

/** @param {string | undefined} value */
function retryAfterMs(value) {
  if (value === undefined || bug === 'ignore-retry-after') return 0
  if (bug === 'ignore-date' && !/^\d+$/.test(value)) return 0
  const isDate = /^\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT$/.test(value)
  const date = bug === 'local-date' ? value.replace(' GMT', '') : value
  const seconds = bug === 'lenient-seconds' ? Number.parseFloat(value) : /^\d+$/.test(value) ? Number(value) : 0
  const ms = isDate ? Date.parse(date) - Date.now() : seconds * 1000
  return Math.min(Math.max(0, ms || 0), bug === 'unbounded-retry-after' ? Number.POSITIVE_INFINITY : hourMs)
}

let endPause = new AbortController()

/** @param {number} ms */
async function pause(ms) {
  const scaled = Math.min(ms * scale, 2 ** 31 - 1)
  if (performance.now() + scaled >= deadlineAt) ending.abort()
  endPause = new AbortController()
  await sleep(scaled, undefined, { signal: AbortSignal.any([ending.signal, endPause.signal]) }).catch(() => {})
}

/**
 * @param {string} url
 * @param {string} body
 * @returns {Promise<{ status: number, headers: import('node:http').IncomingHttpHeaders, text: string }>}
 */
function post(url, body) {
  const headers = {
    'X-Project-Id': env.INGEST_PROJECT_ID,
    'X-Ingestion-Key': key,
    'Content-Type': 'application/json',
  }
  if (bug === 'stale-connection' || bug === 'read-ahead') return postOnKept(url, headers, body)
  return new Promise((resolve) => {
    const signals = [ending.signal]
    const isTimed = bug !== 'no-time-out' && bug !== 'timed-reads'
    if (isTimed) signals.push(AbortSignal.timeout(Number(env.INGEST_TIMEOUT_MS)))
    const fail = () => resolve({ status: 0, headers: {}, text: '' })
    const options = { method: 'POST', headers, agent: false, signal: AbortSignal.any(signals) }
    const req = request(url.includes('/v1/') ? url : batchUrl(url), options, (res) => {
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
      if (bug === 'any-end' || (bug === 'any-400' && status === 400))
        res.on('error', () => resolve({ status, headers, text }))
      res.on('error', fail)
      res.on('close', fail)
    })
    if (bug === 'interim-is-final') {
      req.on('information', ({ statusCode }) => resolve({ status: statusCode, headers: {}, text: '' }))
    }
    if (bug === 'timed-reads') req.setTimeout(Number(env.INGEST_TIMEOUT_MS), () => req.destroy())
    req.on('error', fail)
    req.end(body)
  })
}

/** @param {string} url */
function batchUrl(url) {
  const path = '/v1/events/batch'
  return bug === 'drop-path' ? new URL(path, url).href : url.replace(/\/+$/, '') + path
}

/** @type {import('node:net').Socket | undefined} */
let kept
/** Receives the data of the kept connection, and undefined at its end. @type {(text?: string) => void} */
let receive = () => {}
/** What the kept connection has received after a response. */
let ahead = ''

/**
 * Posts on one kept connection, even after the server has ended it.
 *
 * @param {string} url
 * @param {Record<string, string | undefined>} headers
 * @param {string} body
 * @returns {ReturnType<typeof post>}
 */
function postOnKept(url, headers, body) {
  const { hostname, port } = new URL(url)
  kept ??= connect({ host: hostname, port: Number(port), allowHalfOpen: true })
    .on('data', (chunk) => receive(String(chunk)))
    .on('error', () => {})
    .on('close', () => {
      kept = undefined
      receive()
    })
  const lines = Object.entries({ Host: hostname, ...headers, 'Content-Length': sizeOf(body) }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  )
  kept.write(`POST /v1/events/batch HTTP/1.1\r\n${lines.join('')}\r\n${body}`)
  if (kept.readableEnded) kept.destroySoon()
  return new Promise((resolve) => {
    let response = ''
    receive = (text) => {
      if (text === undefined) return resolve({ status: 0, headers: {}, text: '' })
      response += text
      const [start, length = 0] = /^[\s\S]*?content-length: (\d+)[\s\S]*?\r\n\r\n/i.exec(response) ?? ['']
      if (bug === 'read-ahead' && start) {
        ahead = response.slice(start.length + Number(length))
        response = response.slice(0, start.length + Number(length))
      }
      const [head = '', rest = ''] = response.split('\r\n\r\n')
      // the server responds in chunks, which end with one of length 0, or without a body
      if (rest.endsWith('0') || !/chunked/i.test(head)) {
        const [, json = ''] = /(\{.*\})/.exec(rest) ?? []
        resolve({ status: Number(head.split(' ')[1]), headers: {}, text: json })
      }
    }
    if (ahead) receive(ahead)
  })
}

await lockSpool()
loadSpool()
if (queue.length > 0) void flush()
if (env.INGEST_CHDIR) process.chdir(env.INGEST_CHDIR)
let taken = 0
for await (const line of createInterface(process.stdin)) {
  if (line === '' && bug === 'background-flush') void flush()
  else if (line === '' && bug !== 'no-flush') await flush()
  else if (line !== '') {
    send(line)
    console.log(`taken ${++taken}`)
  }
}
const closeMs = Number(env.INGEST_CLOSE_MS)
deadlineAt = performance.now() + closeMs
const deadline = setTimeout(() => bug !== 'no-deadline' && ending.abort(), closeMs)
if (bug === 'no-drain') ending.abort()
await flush()
clearTimeout(deadline)
clearTimeout(timer)
kept?.destroy()
leave(queue.length)
if (bug === 'miscount') counts.accepted++
console.log(bug === 'no-counts' ? 'done' : JSON.stringify(counts))
if (bug === 'no-end') setTimeout(() => {}, 1e9)
