import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { EmbeddedIngest } from '@ingest/core'
import t, { type Test } from 'tap'
import { pipelinedRequestsMax } from '../../src/http/pipelining.ts'
import { discardBytesMax } from '../../src/http/send-response.ts'
import { createHandler } from '../../src/node-handler.ts'
import { serve } from '../../src/serve.ts'
import { batchOf, openTestIngest } from '../batches.ts'
import { requestBytes } from '../edges.ts'
import { openRaw, type RawConnection } from '../raw-connection.ts'

/** One is handled, the others wait. */
const answeredMax = 1 + pipelinedRequestsMax

const servers: [string, (t: Test, ingest: EmbeddedIngest) => Promise<number>][] = [
  [
    'serve',
    async (t, ingest) => {
      const served = await serve({ ingest, port: 0, closeTimeoutMs: 1 })
      t.teardown(() => served.close())
      return served.port
    },
  ],
  [
    'handler',
    async (t, ingest) => {
      const server = createServer(createHandler(ingest))
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      t.teardown(() => {
        server.close()
        server.closeAllConnections()
      })
      return (server.address() as AddressInfo).port
    },
  ],
]

const get = (path: string) => requestBytes({ method: 'GET', path })
const repeated = (bytes: Buffer, count: number) => Buffer.alloc(bytes.length * count, bytes)

async function readAll(raw: RawConnection): Promise<{ status: number; connection: string | undefined }[]> {
  const answers = []
  for (;;) {
    try {
      const { status, headers } = await raw.read()
      answers.push({ status, connection: headers.connection })
    } catch {
      return answers
    }
  }
}

for (const [name, listen] of servers) {
  t.test(`${name}: a few requests at once are answered in their order`, async (t) => {
    const { ingest, headers, storedCount } = await openTestIngest()
    const raw = await openRaw(await listen(t, ingest))
    const batch = requestBytes({ headers, body: batchOf(1) })
    raw.write(Buffer.concat([get('/livez'), batch, get('/nope'), batch, get('/readyz')]))
    for (const status of [200, 202, 404, 202, 200]) {
      t.match(await raw.read(), { status, headers: { connection: 'keep-alive' } })
    }
    t.equal(await storedCount(), 1)
    raw.write(repeated(get('/livez'), answeredMax))
    for (let i = 0; i < answeredMax; i++) t.match(await raw.read(), { headers: { connection: 'keep-alive' } })
    raw.write(get('/livez'))
    t.equal((await raw.read()).status, 200, 'as often as the client likes')
    raw.socket.destroy()
  })

  t.test(`${name}: of too many at once the first are answered, and the connection ends`, async (t) => {
    const { ingest } = await openTestIngest()
    const port = await listen(t, ingest)
    for (const count of [answeredMax + 1, 1000]) {
      const raw = await openRaw(port)
      raw.write(repeated(get('/nope'), count))
      const answers = await readAll(raw)
      t.equal(answers.length, answeredMax)
      t.ok(answers.every(({ status }) => status === 404))
      t.strictSame(
        answers.flatMap(({ connection }, i) => (connection === 'close' ? [i] : [])),
        [answeredMax - 1],
      )
      t.equal(await raw.ended, 'end')
    }
  })

  t.test(`${name}: a request is handled when the one before it is answered`, async (t) => {
    let release = () => {}
    const gate = new Promise<void>((resolve) => {
      release = resolve
    })
    let handled = 0
    const { ingest, headers } = await openTestIngest({
      authenticate: async () => {
        handled++
        await gate
        return true
      },
    })
    const port = await listen(t, ingest)
    const raw = await openRaw(port)
    raw.write(repeated(requestBytes({ headers, body: batchOf(1) }), 5))
    const other = await openRaw(port)
    // by the time that these are answered, the server has read what came before them
    for (let i = 0; i < 3; i++) {
      other.write(get('/livez'))
      await other.read()
    }
    t.equal(handled, 1)
    release()
    for (let i = 0; i < 5; i++) t.equal((await raw.read()).status, 202)
    t.equal(handled, 5)
    raw.socket.destroy()
    other.socket.destroy()
  })

  t.test(`${name}: a connection gets one of its requests handled before others get theirs`, async (t) => {
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
    many.write(repeated(get('/nope'), answeredMax))
    for (const other of others) other.write(get('/nope'))
    await Promise.all([watch('many', many, answeredMax), ...others.map((other) => watch('other', other, 1))])
    t.ok(order.lastIndexOf('other') < order.lastIndexOf('many'))
    for (const { socket } of [many, ...others]) socket.destroy()
  })

  t.test(`${name}: one that goes on sending too many is cut off`, async (t) => {
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

  t.test(`${name}: what waits on a connection that closes is not handled`, async (t) => {
    let release = () => {}
    const gate = new Promise<void>((resolve) => {
      release = resolve
    })
    let handled = 0
    let arrive = () => {}
    const arrived = new Promise<void>((resolve) => {
      arrive = resolve
    })
    const { ingest, headers, storedCount } = await openTestIngest({
      authenticate: async () => {
        handled++
        arrive()
        await gate
        return true
      },
    })
    const port = await listen(t, ingest)
    const raw = await openRaw(port)
    raw.write(repeated(requestBytes({ headers, body: batchOf(1) }), 3))
    await arrived
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
    t.equal(handled, 1)
    t.ok((await storedCount()) <= 1)
    other.socket.destroy()
  })
}

t.test('of a connection that sent too many, no further request is parsed, and little more is read', async (t) => {
  let release = () => {}
  const gate = new Promise<void>((resolve) => {
    release = resolve
  })
  const { ingest, headers } = await openTestIngest({
    authenticate: async () => {
      await gate
      return true
    },
  })
  const handler = createHandler(ingest)
  const sockets: Socket[] = []
  let parsed = 0
  const server = createServer((req, res) => {
    if (req.socket === sockets[0]) parsed++
    handler(req, res)
  })
  server.on('connection', (socket: Socket) => void sockets.push(socket))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  const raw = await openRaw(port)
  raw.write(requestBytes({ headers, body: batchOf(1) }))
  raw.write(repeated(get('/nope'), 200_000))
  const other = await openRaw(port)
  for (let i = 0; i < 300; i++) {
    other.write(get('/livez'))
    await other.read()
  }
  t.equal(parsed, answeredMax)
  t.ok((sockets[0]?.bytesRead ?? 0) < 1_000_000, `${sockets[0]?.bytesRead} bytes were read`)
  release()
  for (const { socket } of [raw, other]) socket.destroy()
})
