import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { createHandler } from '../src/node-handler.ts'
import { batchOf, batchOfBytes, headersOf, openTestIngest } from './batches.ts'
import { requestBytes } from './edges.ts'
import { openRaw } from './raw-exchange.ts'

const chunked = ['Transfer-Encoding', 'chunked'] as const

function inChunks(text: string, size: number): string {
  const chunks = text.match(new RegExp(`.{1,${size}}`, 'gs')) ?? []
  return `${chunks.map((chunk) => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('')}0\r\n\r\n`
}

/** A server, and how many pieces of bodies it was handed. */
async function open(t: Test) {
  const opened = await openTestIngest()
  const handler = createHandler(opened.ingest)
  const seen = { pieces: 0 }
  const server = createServer((req, res) => {
    const push = req.push.bind(req)
    req.push = (piece, ...rest) => {
      seen.pieces++
      return push(piece, ...rest)
    }
    handler(req, res)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return { ...opened, seen, port: (server.address() as AddressInfo).port }
}

t.test('a body in chunks of a few bytes each is taken', async (t) => {
  const { port, headers, storedCount } = await open(t)
  const raw = await openRaw(port)
  raw.write(requestBytes({ headers: [...headers, chunked], body: inChunks(batchOfBytes(262_144), 8) }))
  t.equal((await raw.read()).status, 202)
  raw.write(requestBytes({ headers: [...headers, chunked], body: inChunks(batchOf(3), 1) }))
  t.equal((await raw.read()).status, 202)
  t.equal(await storedCount(), 4)
  raw.socket.destroy()
})

t.test('a large body in chunks of a byte each is refused, and no longer parsed', async (t) => {
  for (const isKnown of [true, false]) {
    const { port, key, headers, seen, storedCount } = await open(t)
    const raw = await openRaw(port)
    raw.socket.on('error', () => {})
    const sent = [...headersOf(isKnown ? key : 'junk'), chunked]
    raw.write(requestBytes({ headers: sent, body: inChunks(batchOfBytes(262_144), 1) }))
    const answer = await raw.read()
    t.equal(answer.status, isKnown ? 400 : 401)
    if (isKnown) t.match(JSON.parse(answer.body), { code: 'malformed-request', detail: /larger chunks/ })
    t.equal(answer.headers.connection, 'close')
    raw.socket.end()
    await raw.ended
    t.ok(seen.pieces > 0)
    t.ok(seen.pieces < 8000, `${seen.pieces} pieces`)
    t.equal(await storedCount(), 0)

    // Node uses the parsers of closed connections again
    for (let i = 0; i < 5; i++) {
      const next = await openRaw(port)
      next.write(requestBytes({ headers, body: batchOf(1, `${i}-`) }))
      t.equal((await next.read()).status, 202)
      next.socket.destroy()
    }
    t.equal(await storedCount(), 5)
  }
})
