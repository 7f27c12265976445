import { createHash, randomBytes } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import { answerCalls } from '../answer-calls.js'
import { createAnswerReader } from '../answer-reader.js'

// The attacks, as a process of its own. Each goes on until it is ended, and only against this machine.

/** @typedef {Record<string, string>} Headers */
/** @typedef {{ answers: Record<string, number>, broken: number }} Attacked answers by status; connections that broke */

const host = '127.0.0.1'
const unknownPath = Buffer.from(`GET /nope HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
const writeBytes = 65_536
const chunkBytes = 2 ** 20

let port = 0
/** @type {Headers} */
let credentials = {}
let chunkDigest = ''
/** @type {Attacked} */
let attacked = { answers: {}, broken: 0 }
/** @type {() => void} */
let end = () => {}

answerCalls({
  start(options) {
    port = options.port
    credentials = options.credentials
  },

  /** Stores the one chunk that the manifests name. */
  async prepareChunk() {
    const chunk = Buffer.alloc(chunkBytes, 'a')
    chunkDigest = digestOf(chunk)
    const entry = { digest: chunkDigest, size: chunk.length }
    const manifest = { contentType: 'text/plain', size: chunk.length, digest: chunkDigest, chunks: [entry] }
    const init = { method: 'PUT', headers: { ...credentials, 'Content-Type': 'application/json' } }
    const put = await fetch(`http://${host}:${port}/v1/maps`, {
      ...init,
      body: JSON.stringify({ placeId: '1', buildId: 'chunk', manifest }),
    })
    const upload = await fetch(`http://${host}:${port}/v1/maps/chunks?digest=${chunkDigest}`, {
      method: 'PUT',
      headers: { ...credentials, 'Content-Type': 'application/octet-stream' },
      body: chunk,
    })
    if (!put.ok || !upload.ok) throw new Error(`the chunk was not stored: ${put.status}, ${upload.status}`)
  },

  begin({ attack, ...options }) {
    end = /** @type {Record<string, (options: any) => () => void>} */ (attacks)[attack]?.(options) ?? end
  },

  /** @returns {Attacked} */
  end() {
    end()
    end = () => {}
    const result = attacked
    attacked = { answers: {}, broken: 0 }
    return result
  },
})

const attacks = {
  /** One request after the other on each connection, as any client may. @param {{ connections: number }} options */
  plain: ({ connections }) => repeatOn(connections, () => unknownPath),

  /** Writes as fast as the server reads. @param {{ connections: number, isReading: boolean }} options */
  flood: ({ connections, isReading }) => {
    const bytes = repeated(unknownPath, writeBytes)
    return keepOpen(connections, (socket) => {
      const write = () => {
        while (!socket.destroyed && socket.write(bytes));
      }
      socket.on('drain', write)
      write()
      if (isReading) socket.on('data', createAnswerReader(count))
      else socket.pause()
    })
  },

  /** @param {{ bytes: number }} options */
  burst: ({ bytes }) => {
    const socket = connect({ host, port })
    socket.on('connect', () => void socket.write(repeated(unknownPath, bytes)))
    socket.on('data', createAnswerReader(count)).on('error', countBroken)
    return () => void socket.destroy()
  },

  /**
   * Manifests that name one stored chunk over and over. @param {{ connections: number, chunks: number, isDryRun:
   * boolean }} options
   */
  manifests: ({ connections, chunks, isDryRun }) => {
    const entry = JSON.stringify({ digest: chunkDigest, size: chunkBytes })
    const requests = Array.from({ length: connections }, (_, i) => {
      const digest = digestOf(randomBytes(16))
      const list = Array.from({ length: chunks }, () => entry).join(',')
      const manifest = `{"contentType":"text/plain","size":${chunks * chunkBytes},"digest":"${digest}","chunks":[${list}]}`
      const body = gzipSync(`{"placeId":"1","buildId":"build-${i}","manifest":${manifest}}`)
      const path = isDryRun ? '/v1/maps?dryRun=true' : '/v1/maps'
      return requestBytes('PUT', path, body, { 'Content-Encoding': 'gzip' })
    })
    return repeatOn(connections, (i) => /** @type {Buffer} */ (requests[i]))
  },

  /** Readers that read nothing of their response. @param {{ connections: number }} options */
  stalled: ({ connections }) => {
    const bytes = requestBytes('GET', '/v1/events?limit=10000')
    return keepOpen(connections, (socket) => {
      socket.pause()
      socket.write(bytes)
    })
  },

  /** Readers that start over when they are done. @param {{ connections: number, path: string }} options */
  readers: ({ connections, path }) => {
    const ended = new AbortController()
    // one listener for each request under way
    setMaxListeners(0, ended.signal)
    async function read() {
      while (!ended.signal.aborted) {
        try {
          const url = `http://${host}:${port}${path}`
          const { status, body } = await fetch(url, { headers: credentials, signal: ended.signal })
          for await (const _ of body ?? []);
          count({ status })
        } catch {
          if (!ended.signal.aborted) countBroken()
          await new Promise((resolve) => setTimeout(resolve, 10))
        }
      }
    }
    for (let i = 0; i < connections; i++) read()
    return () => ended.abort()
  },

  /** Batches of one invalid event with as many keys as fit. @param {{ connections: number, bytes: number }} options */
  keys: ({ connections, bytes }) => {
    const pairs = []
    const open = `{"events":[{"projectId":"${credentials['X-Project-Id']}","eventId":"e","type":1`
    for (let size = open.length + 3, i = 0; ; i++) {
      const pair = `,"k${i}":0`
      size += pair.length
      if (size > bytes) break
      pairs.push(pair)
    }
    const batch = requestBytes('POST', '/v1/events/batch', Buffer.from(`${open}${pairs.join('')}}]}`))
    return repeatOn(connections, () => batch)
  },
}

/** @param {{ status: number }} answer */
function count({ status }) {
  attacked.answers[status] = (attacked.answers[status] ?? 0) + 1
}

function countBroken() {
  attacked.broken++
}

/** Closed loop on each of so many connections. @param {number} connections @param {(i: number) => Buffer} requestOf */
function repeatOn(connections, requestOf) {
  return keepOpen(connections, (socket, i) => {
    const send = () => void socket.write(requestOf(i))
    const read = createAnswerReader((answer) => {
      count(answer)
      send()
    })
    socket.on('data', read)
    send()
  })
}

/**
 * Keeps so many connections open: one that closes is replaced at once. Returns what closes them all.
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
    // one that is not read finds out by writing that the other side has closed
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
  const fields = { Host: host, ...credentials, ...length, ...headers }
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
