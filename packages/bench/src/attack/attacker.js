import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { serveCalls } from '../contenders/serve-calls.js'
import { createResponseReader } from '../load/response-reader.js'

// The attacks, in a process of their own. Each lasts until it is ended, and targets only this machine.

/** @typedef {Record<string, string>} Headers */
/** @typedef {() => void} Attack ends it */
/**
 * @typedef {object} AttackOptions an attack ignores those that it does not need
 * @property {Headers} credentials
 * @property {number} connections
 * @property {string} path
 * @property {number} bytes of a body or a write
 * @property {number} chunks
 * @property {string} start of a body
 * @property {boolean} isDryRun
 * @property {boolean} isReading
 */
/** @typedef {{ responses: Record<string, number>, broken: number }} Attacked `responses` by status; `broken` connections */

const host = '127.0.0.1'
const unknownPath = Buffer.from(`GET /nope HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
const writeBytes = 65_536
const chunkBytes = 2 ** 20
const refusedMs = 50

let port = 0
/** The headers of each attacking key. @type {Headers[]} */
let keys = []
/** The headers of an honest project that also has hostile readers. @type {Headers} */
let neighbour = {}
let chunkDigest = ''
/** @type {Attacked} */
let attacked = { responses: {}, broken: 0 }
/** @type {() => void} */
let end = () => {}

serveCalls({
  start(options) {
    port = options.port
    keys = options.credentials
    neighbour = options.neighbour
  },

  /** Stores the one chunk that the manifests name. */
  async prepareChunk() {
    const chunk = Buffer.alloc(chunkBytes, 'a')
    chunkDigest = digestOf(chunk)
    const entry = { digest: chunkDigest, size: chunk.length }
    await putManifest('1', chunkDigest, [entry], keys[0])
    const upload = await fetch(`http://${host}:${port}/v1/maps/chunks?digest=${chunkDigest}`, {
      method: 'PUT',
      headers: { ...keys[0], 'Content-Type': 'application/octet-stream' },
      body: chunk,
    })
    if (!upload.ok) throw new Error(`the chunk was not stored: ${upload.status}`)
  },

  /** Begins an attack by each of the keys. */
  async begin({ attack, ...options }) {
    const begun = attacks[attack]
    const stops = begun ? await Promise.all(keys.map((credentials) => begun({ ...options, credentials }))) : []
    end = () => {
      for (const stop of stops) stop()
    }
  },

  /** @returns {Attacked} */
  end() {
    end()
    end = () => {}
    const result = attacked
    attacked = { responses: {}, broken: 0 }
    return result
  },
})

/** @type {Record<string, (options: AttackOptions) => Attack | Promise<Attack>>} */
const attacks = {
  /** Not an attack: one request after another on each connection. */
  plain: ({ connections }) => repeatOn(connections, () => unknownPath),

  /** Writes as fast as the server reads. */
  flood: ({ connections, isReading }) => {
    const bytes = repeated(unknownPath, writeBytes)
    return keepOpen(connections, (socket) => {
      const write = () => {
        while (!socket.destroyed && socket.write(bytes));
      }
      socket.on('drain', write)
      write()
      if (isReading) socket.on('data', createResponseReader(count))
      else socket.pause()
    })
  },

  /** Pipelines `bytes` of requests at once, on one connection. */
  burst: ({ bytes }) => {
    const socket = connect({ host, port })
    socket.on('connect', () => void socket.write(repeated(unknownPath, bytes)))
    socket.on('data', createResponseReader(count)).on('error', countBroken)
    return () => void socket.destroy()
  },

  /** Manifests that name one stored chunk many times. */
  manifests: ({ credentials, connections, chunks, isDryRun }) => {
    const entry = JSON.stringify({ digest: chunkDigest, size: chunkBytes })
    const requests = Array.from({ length: connections }, (_, i) => {
      const digest = digestOf(randomBytes(16))
      const list = Array.from({ length: chunks }, () => entry).join(',')
      const manifest = `{"contentType":"text/plain","size":${chunks * chunkBytes},"digest":"${digest}","chunks":[${list}]}`
      const body = gzipSync(`{"placeId":"1","buildId":"build-${i}","manifest":${manifest}}`)
      const path = isDryRun ? '/v1/maps?dryRun=true' : '/v1/maps'
      return requestBytes('PUT', path, body, { ...credentials, 'Content-Encoding': 'gzip' })
    })
    return repeatOn(connections, (i) => /** @type {Buffer} */ (requests[i]))
  },

  /** Readers that do not read their response. */
  stalled: ({ credentials, connections }) => {
    const bytes = requestBytes('GET', '/v1/events?limit=10000', undefined, credentials)
    return keepOpen(connections, (socket) => {
      socket.pause()
      socket.write(bytes)
    })
  },

  readers: startReaders,

  /** Long polls of a project that receives events. */
  polls: (options) => startReaders({ ...options, credentials: neighbour }),

  /** Batches of one invalid event with as many keys as fit. */
  keys: ({ credentials, connections, bytes }) => {
    const pairs = []
    const open = `{"events":[{"projectId":"${credentials['X-Project-Id']}","eventId":"e","type":1`
    for (let size = open.length + 3, i = 0; ; i++) {
      const pair = `,"k${i}":0`
      size += pair.length
      if (size > bytes) break
      pairs.push(pair)
    }
    const batch = requestBytes('POST', '/v1/events/batch', Buffer.from(`${open}${pairs.join('')}}]}`), credentials)
    return repeatOn(connections, () => batch)
  },

  /** Uploads of JSON with as many members as fit. */
  members: ({ credentials, connections, path, start, bytes }) => {
    const pairs = [`"k":0`]
    for (let size = start.length; size < bytes; ) {
      const pair = `"${randomUUID().slice(0, 4)}${pairs.length}":${pairs.length}`
      pairs.push(pair)
      size += pair.length + 1
    }
    const request = requestBytes('PUT', path, Buffer.from(`${start}{${pairs.join(',')}}}`), credentials)
    return repeatOn(connections, () => request, refusedMs)
  },

  /** Small maps, each of another place. */
  tinyMaps: ({ credentials, connections }) => {
    let place = 0
    const request = () =>
      requestBytes('PUT', '/v1/maps', Buffer.from(`{"placeId":"${place++}","buildId":"t","map":1}`), credentials)
    return repeatOn(connections, request, refusedMs)
  },

  /** The status of a map of many chunks. */
  async status({ credentials, connections, chunks }) {
    const entries = Array.from({ length: chunks }, (_, i) => ({ digest: digestOf(Buffer.from(`${i}`)), size: 5 }))
    await putManifest('status', digestOf(randomBytes(16)), entries, credentials)
    return startReaders({ credentials, connections, path: '/v1/maps?placeId=status&buildId=b' })
  },

  /** Uploads that never send their last byte. */
  unfinished: ({ credentials, connections }) => {
    const whole = requestBytes('PUT', '/v1/maps', Buffer.from('{"placeId":"1","buildId":"u","map":1}'), credentials)
    return keepOpen(connections, (socket) => {
      socket.write(whole.subarray(0, -1))
      socket.on('data', createResponseReader(count))
    })
  },
}

/** Readers that start again when they have read everything. @param {Pick<AttackOptions, 'credentials' | 'connections' | 'path'>} options */
function startReaders({ credentials, connections, path }) {
  const ended = new AbortController()
  // each request in flight adds a listener
  setMaxListeners(0, ended.signal)
  async function read() {
    while (!ended.signal.aborted) {
      try {
        const url = `http://${host}:${port}${path}`
        const { status, body } = await fetch(url, { headers: credentials, signal: ended.signal })
        for await (const _ of body ?? []);
        count({ status })
        if (status >= 400) await sleep(refusedMs)
      } catch {
        if (!ended.signal.aborted) countBroken()
        await sleep(10)
      }
    }
  }
  for (let i = 0; i < connections; i++) read()
  return () => ended.abort()
}

/**
 * @param {string} placeId @param {string} digest @param {{ digest: string, size: number }[]} chunks
 * @param {Headers} [credentials]
 */
async function putManifest(placeId, digest, chunks, credentials) {
  const size = chunks.reduce((sum, chunk) => sum + chunk.size, 0)
  const put = await fetch(`http://${host}:${port}/v1/maps`, {
    method: 'PUT',
    headers: { ...credentials, 'Content-Type': 'application/json' },
    body: JSON.stringify({ placeId, buildId: 'b', manifest: { contentType: 'text/plain', size, digest, chunks } }),
  })
  if (!put.ok) throw new Error(`the manifest was not accepted: ${put.status} ${await put.text()}`)
}

/** @param {{ status: number }} response */
function count({ status }) {
  attacked.responses[status] = (attacked.responses[status] ?? 0) + 1
}

function countBroken() {
  attacked.broken++
}

/**
 * A closed loop on each of `connections` connections.
 *
 * @param {number} connections
 * @param {(i: number) => Buffer} requestOf
 * @param {number} [waitMs] the pause of a connection after a refusal; another attack shows what refusals cost
 */
function repeatOn(connections, requestOf, waitMs = 0) {
  return keepOpen(connections, (socket, i) => {
    const send = () => void socket.write(requestOf(i))
    const read = createResponseReader((response) => {
      count(response)
      if (waitMs > 0 && response.status >= 400) setTimeout(send, waitMs)
      else send()
    })
    socket.on('data', read)
    send()
  })
}

/**
 * Keeps `connections` connections open; a closed one is replaced at once. Returns a function that closes them all.
 *
 * @param {number} connections
 * @param {(socket: import('node:net').Socket, i: number) => void} use
 */
function keepOpen(connections, use) {
  let isOver = false
  /** @type {Set<import('node:net').Socket>} */
  const sockets = new Set()
  /** @param {number} i */
  function open(i) {
    if (isOver) return
    const socket = connect({ host, port })
    sockets.add(socket)
    socket.on('connect', () => use(socket, i))
    // a connection that is not read notices only on a write that the other side has closed
    socket.on('error', () => {})
    socket.on('close', () => {
      sockets.delete(socket)
      if (!isOver) countBroken()
      setImmediate(open, i)
    })
  }
  for (let i = 0; i < connections; i++) open(i)
  return () => {
    isOver = true
    for (const socket of sockets) socket.destroy()
  }
}

/** @param {string} method @param {string} path @param {Buffer} [body] @param {Headers} [headers] */
function requestBytes(method, path, body, headers = {}) {
  const length = body && { 'Content-Type': 'application/json', 'Content-Length': String(body.length) }
  const fields = { Host: host, ...length, ...headers }
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
  return Buffer.concat([Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`), body ?? Buffer.alloc(0)])
}

/** As many whole copies as fit. @param {Buffer} bytes @param {number} size */
function repeated(bytes, size) {
  return Buffer.alloc(Math.floor(size / bytes.length) * bytes.length, bytes)
}

/** @param {Buffer} bytes */
function digestOf(bytes) {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`
}
