import { once } from 'node:events'
import { fdatasync, mkdirSync, openSync, write } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { serveCalls } from '../src/contenders/serve-calls.js'

// The lower bound of a Node.js server: it reads the body and parses it. With `isSynced` it also appends the body to a file
// and syncs it: durable, but without duplicate detection.
const [writeAsync, syncAsync] = [promisify(write), promisify(fdatasync)]
let file = -1
/** @type {{ body: Buffer, done: () => void }[]} */
let waiting = []
let isWriting = false

const server = createServer((req, res) => {
  /** @type {Buffer[]} */
  const chunks = []
  req.on('data', (chunk) => chunks.push(chunk))
  req.on('end', () => {
    const body = Buffer.concat(chunks)
    const { events } = JSON.parse(body.toString())
    const text = JSON.stringify({ accepted: events.length, duplicates: 0, rejected: [] })
    const head = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }
    const done = () => void res.writeHead(202, head).end(text)
    if (file === -1) return done()
    waiting.push({ body, done })
    if (!isWriting) writeWaiting()
  })
})

/** One sync for all bodies that arrived during the last one. */
async function writeWaiting() {
  isWriting = true
  while (waiting.length > 0) {
    const group = waiting
    waiting = []
    await writeAsync(file, Buffer.concat(group.map(({ body }) => body)))
    await syncAsync(file)
    for (const { done } of group) done()
  }
  isWriting = false
}

serveCalls({
  /** @param {{ directory: string, isSynced?: boolean }} options */
  async start({ directory, isSynced }) {
    if (isSynced) {
      mkdirSync(directory, { recursive: true })
      file = openSync(join(directory, 'log'), 'w')
    }
    await once(server.listen(0, '127.0.0.1'), 'listening')
    return { port: /** @type {import('node:net').AddressInfo} */ (server.address()).port }
  },
})
