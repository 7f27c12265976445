import { createServer } from 'node:http'
import type { Socket } from 'node:net'
import type { EmbeddedIngest } from '@ingest/core'
import t, { type Test } from 'tap'
import { pipelinedRequestsMax } from '../../src/http/pipelining.ts'
import { discardBytesMax } from '../../src/http/send-response.ts'
import { createHandler } from '../../src/node-handler.ts'
import { requestBytes } from '../edges.ts'
import { listen as listenOn, openServed } from '../open-server.ts'
import { openRaw, type RawConnection } from '../raw-connection.ts'
import { batchOf, openBlockedIngest, openTestIngest } from '../test-ingest.ts'

/** One request in flight, and the queued ones. */
const responsesMax = 1 + pipelinedRequestsMax

const servers: [string, (t: Test, ingest: EmbeddedIngest) => Promise<number>][] = [
  ['serve', async (t, ingest) => (await openServed(t, { ingest })).served.port],
  ['handler', (t, ingest) => listenOn(t, createServer(createHandler(ingest)))],
]

const get = (path: string) => requestBytes({ method: 'GET', path })
const repeated = (bytes: Buffer, count: number) => Buffer.alloc(bytes.length * count, bytes)

async function readAll(raw: RawConnection): Promise<{ status: number; connection: string | undefined }[]> {
  const responses = []
  for (;;) {
    try {
      const { status, headers } = await raw.read()
      responses.push({ status, connection: headers.connection })
    } catch {
      return responses
    }
  }
}

for (const [name, listen] of servers) {
  t.test(`${name}: pipelined requests get their responses in order`, async (t) => {
    const { ingest, headers, storedCount } = await openTestIngest()
    const raw = await openRaw(await listen(t, ingest))
    const batch = requestBytes({ headers, body: batchOf(1) })
    raw.write(Buffer.concat([get('/livez'), batch, get('/nope'), batch, get('/readyz')]))
    for (const status of [200, 202, 404, 202, 200]) {
      t.match(await raw.read(), { status, headers: { connection: 'keep-alive' } })
    }
    t.equal(await storedCount(), 1)
    raw.write(repeated(get('/livez'), responsesMax))
    for (let i = 0; i < responsesMax; i++) t.match(await raw.read(), { headers: { connection: 'keep-alive' } })
    raw.write(get('/livez'))
    t.equal((await raw.read()).status, 200, 'the limit is per burst')
    raw.socket.destroy()
  })

  t.test(`${name}: of too many pipelined requests, the first get responses and the connection is closed`, async (t) => {
    const { ingest } = await openTestIngest()
    const port = await listen(t, ingest)
    for (const count of [responsesMax + 1, 1000]) {
      const raw = await openRaw(port)
      raw.write(repeated(get('/nope'), count))
      const responses = await readAll(raw)
      t.equal(responses.length, responsesMax)
      t.ok(responses.every(({ status }) => status === 404))
      t.strictSame(
        responses.flatMap(({ connection }, i) => (connection === 'close' ? [i] : [])),
        [responsesMax - 1],
      )
      t.equal(await raw.ended, 'end')
    }
  })

  t.test(`${name}: a pipelined request is handled after the response to the one before it`, async (t) => {
    const { ingest, headers, release, handledCount } = await openBlockedIngest()
    const port = await listen(t, ingest)
    const raw = await openRaw(port)
    raw.write(repeated(requestBytes({ headers, body: batchOf(1) }), 5))
    const other = await openRaw(port)
    // when these have responses, the server has read what was sent before
    for (let i = 0; i < 3; i++) {
      other.write(get('/livez'))
      await other.read()
    }
    t.equal(handledCount(), 1)
    release()
    for (let i = 0; i < 5; i++) t.equal((await raw.read()).status, 202)
    t.equal(handledCount(), 5)
    raw.socket.destroy()
    other.socket.destroy()
  })

  t.test(`${name}: pipelined requests do not delay other connections`, async (t) => {
    const { ingest } = await openTestIngest()
    const port = await listen(t, ingest)
    const order: string[] = []
    const watch = async (name: string, raw: RawConnection, count: number) => {
      for (let i = 0; i < count; i++) {
        await raw.read()
        order.push(name)
      }
    }
    const many = await openRaw(port)
    const others = await Promise.all(Array.from({ length: 3 }, () => openRaw(port)))
    many.write(repeated(get('/nope'), responsesMax))
    for (const other of others) other.write(get('/nope'))
    await Promise.all([watch('many', many, responsesMax), ...others.map((other) => watch('other', other, 1))])
    t.ok(order.lastIndexOf('other') < order.lastIndexOf('many'))
    for (const { socket } of [many, ...others]) socket.destroy()
  })

  t.test(`${name}: a client that never stops pipelining is disconnected`, async (t) => {
    const { ingest } = await openTestIngest()
    const port = await listen(t, ingest)
    const raw = await openRaw(port)
    raw.socket.pause()
    const bytes = repeated(get('/nope'), 2000)
    let sent = 0
    while (!raw.socket.destroyed && sent < 20 * discardBytesMax) {
      await new Promise((resolve) => raw.socket.write(bytes, resolve))
      sent += bytes.length
    }
    t.ok(sent < 20 * discardBytesMax)
    const other = await openRaw(port)
    other.write(get('/livez'))
    t.equal((await other.read()).status, 200)
    other.socket.destroy()
  })

  t.test(`${name}: queued requests of a closed connection are not handled`, async (t) => {
    const { ingest, headers, storedCount, release, isHandled, handledCount } = await openBlockedIngest()
    const port = await listen(t, ingest)
    const raw = await openRaw(port)
    raw.write(repeated(requestBytes({ headers, body: batchOf(1) }), 3))
    await isHandled
    raw.socket.resetAndDestroy()
    const other = await openRaw(port)
    for (let i = 0; i < 3; i++) {
      other.write(get('/livez'))
      await other.read()
    }
    release()
    for (let i = 0; i < 3; i++) {
      other.write(get('/livez'))
      await other.read()
    }
    t.equal(handledCount(), 1)
    t.ok((await storedCount()) <= 1)
    other.socket.destroy()
  })
}

t.test('after too many pipelined requests, no further request is parsed and few bytes are read', async (t) => {
  const { ingest, headers, release } = await openBlockedIngest()
  const handler = createHandler(ingest)
  const sockets: Socket[] = []
  let parsed = 0
  const server = createServer((req, res) => {
    if (req.socket === sockets[0]) parsed++
    handler(req, res)
  })
  server.on('connection', (socket: Socket) => void sockets.push(socket))
  const port = await listenOn(t, server)
  const raw = await openRaw(port)
  raw.write(requestBytes({ headers, body: batchOf(1) }))
  raw.write(repeated(get('/nope'), 200_000))
  const other = await openRaw(port)
  for (let i = 0; i < 300; i++) {
    other.write(get('/livez'))
    await other.read()
  }
  t.equal(parsed, responsesMax)
  t.ok((sockets[0]?.bytesRead ?? 0) < 1_000_000, `${sockets[0]?.bytesRead} bytes were read`)
  release()
  for (const { socket } of [raw, other]) socket.destroy()
})
