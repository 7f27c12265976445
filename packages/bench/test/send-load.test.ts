import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createIngest, openMemoryStore } from '@ingest/core'
import { type Served, serve } from '@ingest/server'
import t, { type Test } from 'tap'
import { type LoadOptions, sendLoad } from '../src/send-load.js'

const load = { projectId: 'bench', count: 10, connections: 2, seconds: 0.1 }

t.test('a server that answers rightly gets a figure', async (t) => {
  const { server, options } = await serveIngest(t)
  const result = await sendLoad(options)
  t.equal(result.events, result.batches * 10)
  t.ok(result.batches > 0)
  t.ok(result.eventsPerSecond > 0)
  t.ok(result.p50Ms > 0 && result.p50Ms <= result.p99Ms && result.p99Ms <= result.maxMs)
  await server.close()
})

t.test('batches that are sent again are duplicates, every one', async (t) => {
  const { server, options } = await serveIngest(t)
  const { seed, answered } = await sendLoad(options)
  t.ok(answered > 0)
  await sendLoad({ ...options, seed, resend: answered })
  await t.rejects(sendLoad({ ...options, seed }), /a wrong answer, of 10 events 10 were new/)
  await server.close()
})

t.test('with repeats in the batches, the answers tell them from what is new', async (t) => {
  const { server, options } = await serveIngest(t)
  for (const repeatShare of [0.1, 0.5]) await sendLoad({ ...options, repeatShare })
  await server.close()
})

t.test('an open loop sends what is due', async (t) => {
  const { server, options } = await serveIngest(t)
  const { batches } = await sendLoad({ ...options, batchesPerSecond: 200 })
  t.ok(batches > 0 && batches <= 21, `${batches} batches`)
  await server.close()
})

t.test('a server that lies makes the run fail', async (t) => {
  const right = JSON.stringify({ accepted: 10, duplicates: 0, rejected: [] })
  const lies: [string, number, string][] = [
    ['another status', 200, right],
    ['a failure', 500, '{}'],
    ['one too few', 202, JSON.stringify({ accepted: 9, duplicates: 0, rejected: [] })],
    ['a duplicate that is none', 202, JSON.stringify({ accepted: 9, duplicates: 1, rejected: [] })],
    ['a rejection', 202, JSON.stringify({ accepted: 10, duplicates: 0, rejected: [{}] })],
    ['no JSON', 202, 'thank you'],
  ]
  for (const [name, status, body] of lies) {
    // the first answers are right: one wrong answer spoils a run
    let left = 5
    const port = await listen(t, (req, res) => {
      req.resume().on('end', () => {
        const [code, text] = left-- > 0 ? [202, right] : [status, body]
        res.writeHead(code, { 'Content-Length': Buffer.byteLength(text) }).end(text)
      })
    })
    await t.rejects(sendLoad({ ...load, port }), /a wrong answer/, name)
  }
})

t.test('a server that hangs up makes the run fail', async (t) => {
  const port = await listen(t, (req) => req.socket.destroy())
  await t.rejects(sendLoad({ ...load, port }))
})

t.test('a server that cannot hold the rate makes an open loop fail', async (t) => {
  const port = await listen(t, () => {})
  await t.rejects(sendLoad({ ...load, port, seconds: 0.5, batchesPerSecond: 1e6 }), /more than the server can hold/)
})

async function serveIngest(t: Test): Promise<{ server: Served; options: LoadOptions }> {
  const ingest = createIngest({ store: openMemoryStore() })
  const server = await serve({ ingest, port: 0 })
  t.teardown(() => server.close())
  const { key } = await ingest.keys.create('bench')
  const headers = { 'X-Project-Id': 'bench', 'X-Ingestion-Key': key }
  return { server, options: { ...load, port: server.port, headers } }
}

async function listen(t: Test, listener: RequestListener): Promise<number> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}
