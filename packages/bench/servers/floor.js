import { createServer } from 'node:http'
import { answerCalls } from '../src/answer-calls.js'
import { listen } from './listen.js'

// Reads the body, parses it, and keeps nothing: no server of this kind in Node can be faster.
const server = createServer((req, res) => {
  /** @type {Buffer[]} */
  const pieces = []
  req.on('data', (piece) => pieces.push(piece))
  req.on('end', () => {
    const { events } = JSON.parse(Buffer.concat(pieces).toString())
    const body = JSON.stringify({ accepted: events.length, duplicates: 0, rejected: [] })
    res.writeHead(202, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) }).end(body)
  })
})

answerCalls({ start: async () => ({ port: await listen(server) }) })
