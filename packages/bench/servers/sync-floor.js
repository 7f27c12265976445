import { fdatasync, mkdirSync, openSync, write } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { answerCalls } from '../src/answer-calls.js'
import { listen } from './listen.js'

// The floor with the body appended to a file: durable, but nothing is looked up. One sync for all that has gathered
// while the last one ran.
const [writeAsync, syncAsync] = [promisify(write), promisify(fdatasync)]
let file = -1
/** @type {{ body: Buffer, done: () => void }[]} */
let waiting = []
let isWriting = false

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

const server = createServer((req, res) => {
  /** @type {Buffer[]} */
  const pieces = []
  req.on('data', (piece) => pieces.push(piece))
  req.on('end', () => {
    const body = Buffer.concat(pieces)
    const { events } = JSON.parse(body.toString())
    const answer = JSON.stringify({ accepted: events.length, duplicates: 0, rejected: [] })
    waiting.push({
      body,
      done: () => {
        res
          .writeHead(202, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(answer) })
          .end(answer)
      },
    })
    if (!isWriting) writeWaiting()
  })
})

answerCalls({
  async start({ directory }) {
    mkdirSync(directory, { recursive: true })
    file = openSync(join(directory, 'log'), 'w')
    return { port: await listen(server) }
  },
})
