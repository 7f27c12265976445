import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getPriority } from 'node:os'
import { Worker } from 'node:worker_threads'
import { createIngest, openMemoryStore } from '@ingest/core'
import { type Served, serve } from '@ingest/server'
import t, { type Test } from 'tap'
import { processorTimePerEvent, readProcessorTime, threadsOf, totalOf } from '../src/contenders/processor-time.js'
import { idOf, makeBatch, newSeed, stampBatch } from '../src/load/make-batch.js'
import { createResponseReader } from '../src/load/response-reader.js'
import { createBatchPlan, type LoadOptions, sendLoad } from '../src/load/send-load.js'

const skip = !existsSync('/proc/self/task')
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** Takes some tens of milliseconds at least. */
const work = `
const { pbkdf2Sync } = require('node:crypto')
pbkdf2Sync('password', 'salt', 100_000, 64, 'sha512')`

t.test('threads are distinguished by their start and their priority', { skip }, async (t) => {
  const watched = { pid: process.pid, helpers: threadsOf(process.pid).filter((thread) => thread !== process.pid) }
  t.strictSame(Object.keys(readProcessorTime(watched) ?? {}), ['main', 'helpers'])
  for (const [nice, role] of [
    [getPriority(), 'writer'],
    [4, 'index'],
    [5, 'chunks'],
    [getPriority(), 'others'],
  ] as const) {
    await startWorker(t, nice)
    const time = readProcessorTime(watched) ?? {}
    t.ok((time[role] ?? 0) > 0, role)
  }
})

t.test('the time of PostgreSQL includes its ended processes', { skip }, async (t) => {
  const child = `${work}; const { user, system } = process.cpuUsage(); console.log((user + system) / 1000)`
  const run = `require('node:child_process').spawnSync(process.execPath, ['-e', ${JSON.stringify(child)}])`
  const program = `console.log(${run}.stdout.toString()); process.stdin.resume()`
  const server = spawn(process.execPath, ['-e', program], { stdio: ['pipe', 'pipe', 'inherit'] })
  t.teardown(() => server.kill())
  const [childMs] = await once(server.stdout, 'data')
  const pid = server.pid ?? 0
  const own = totalOf(readProcessorTime({ pid, helpers: [] })) ?? 0
  const { database = 0 } = readProcessorTime({ pid: process.pid, helpers: [], database: pid }) ?? {}
  const both = own + Number(childMs)
  // the clock ticks every 10 ms
  t.ok(database >= both - 20, `${database} of ${both} ms`)
})

t.test('a process that does not exist has no time', async (t) => {
  t.equal(readProcessorTime({ pid: 2 ** 30, helpers: [] }), undefined)
  t.equal(processorTimePerEvent(undefined, { main: 1 }, 1), undefined)
  t.equal(totalOf(undefined), undefined)
})

t.test('the time between two readings is divided by the number of events', async (t) => {
  const time = processorTimePerEvent({ main: 100, writer: 20 }, { main: 300, writer: 20, index: 50 }, 1000)
  t.strictSame(time, { main: 200, writer: 0, index: 50 })
  t.equal(totalOf(time), 250)
})

async function startWorker(t: Test, nice: number): Promise<void> {
  const source = `
    require('node:os').setPriority(${nice})
    ${work}
    const { parentPort } = require('node:worker_threads')
    parentPort.on('message', () => {})
    parentPort.postMessage('done')`
  const worker = new Worker(source, { eval: true })
  t.teardown(() => worker.terminate())
  await once(worker, 'message')
}

t.test('a batch is valid, all of its events are new, and each has about 350 bytes', async (t) => {
  const ingest = createIngest({ store: openMemoryStore() })
  for (const count of [100, 1]) {
    const batch = makeBatch('bench', count)
    stampBatch(batch, newSeed(), count)
    const result = await ingest.project('bench').submitBatch(Buffer.from(batch.body))
    t.strictSame(result, { accepted: count, duplicates: 0, rejected: [] })
    t.ok(batch.body.length / count > 330 && batch.body.length / count < 390, `${batch.body.length / count} bytes`)
  }
})

t.test('ids are unique UUIDs', async (t) => {
  const batch = makeBatch('bench', 100)
  const ids = new Set<string>()
  const seed = newSeed()
  for (let number = 0; number < 200; number++) {
    stampBatch(batch, seed, number)
    for (let index = 0; index < 100; index++) ids.add(idOf(batch, index))
  }
  stampBatch(batch, newSeed(), 0)
  for (let index = 0; index < 100; index++) ids.add(idOf(batch, index))
  t.equal(ids.size, 20_100)
  t.strictSame(
    [...ids].filter((id) => !uuid.test(id)),
    [],
  )
})

t.test('the same seed and number make the same ids', async (t) => {
  const [one, other] = [makeBatch('bench', 10), makeBatch('bench', 10)]
  const seed = newSeed()
  stampBatch(one, seed, 5)
  stampBatch(other, seed, 4)
  t.not(idOf(one, 0), idOf(other, 0))
  stampBatch(other, seed, 5)
  t.strictSame(idsOf(one), idsOf(other))
})

t.test('repeats are the events of another batch, and the rest is new', async (t) => {
  const [source, batch, fresh] = [makeBatch('bench', 10), makeBatch('bench', 10), makeBatch('bench', 10)]
  const seed = newSeed()
  stampBatch(source, seed, 1)
  stampBatch(fresh, seed, 2)
  stampBatch(batch, seed, 2, { batch: 1, at: 3, count: 3 })
  t.strictSame(idsOf(batch), [...idsOf(source).slice(3, 6), ...idsOf(fresh).slice(3)])
})

t.test('a head precedes the body and has its length', async (t) => {
  const { bytes, body } = makeBatch('bench', 3, { head: (length) => `${length};` })
  t.equal(bytes.toString(), `${body.length};${body.toString()}`)
})

function idsOf(batch: ReturnType<typeof makeBatch>): string[] {
  return Array.from({ length: batch.count }, (_, index) => idOf(batch, index))
}

t.test('by default, every batch is new', async (t) => {
  const plan = createBatchPlan({ count: 100 })
  t.strictSame(plan.next(), { number: 0, repeats: undefined, accepted: 100 })
  t.strictSame(plan.next(), { number: 1, repeats: undefined, accepted: 100 })
})

t.test('only acknowledged batches are repeated, and only their new events', async (t) => {
  const plan = createBatchPlan({ count: 100, repeatShare: 0.5 })
  const first = plan.next()
  t.equal(first.accepted, 100)
  t.equal(plan.next().repeats, undefined, 'nothing is acknowledged yet')
  plan.acknowledge(first)
  t.strictSame(plan.next(), { number: 2, repeats: { batch: 0, at: 50, count: 50 }, accepted: 50 })
  t.throws(() => createBatchPlan({ count: 100, repeatShare: 0.6 }))
})

t.test('batches to send again are sent in a cycle, and none of their events is new', async (t) => {
  const plan = createBatchPlan({ count: 100, resend: 2 })
  t.strictSame(
    [plan.next(), plan.next(), plan.next()],
    [0, 1, 0].map((number) => ({ number, repeats: undefined, accepted: 0 })),
  )
})

const one = 'HTTP/1.1 202 Accepted\r\nContent-Length: 7\r\n\r\n{"a":1}'
const two = 'HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\ncontent-length:2\r\n\r\nno'
const expected = [
  { status: 202, body: '{"a":1}' },
  { status: 503, body: 'no' },
]

t.test('responses are parsed at any chunk boundaries', async (t) => {
  for (const size of [1, 2, 5, 50, 1000]) {
    const responses: unknown[] = []
    const read = createResponseReader((response) => responses.push(response))
    const bytes = Buffer.from(one + two)
    for (let at = 0; at < bytes.length; at += size) read(bytes.subarray(at, at + size))
    t.strictSame(responses, expected, `chunks of ${size}`)
  }
})

t.test('a response without its length is an error', async (t) => {
  const read = createResponseReader(() => {})
  t.throws(() => read(Buffer.from('HTTP/1.1 200 OK\r\n\r\n')), /Content-Length/)
})

const load = { projectId: 'bench', count: 10, connections: 2, seconds: 0.1 }

t.test('a server with correct responses gets a figure', async (t) => {
  const { server, options } = await serveIngest(t)
  const result = await sendLoad(options)
  t.equal(result.events, result.batches * 10)
  t.ok(result.batches > 0)
  t.ok(result.eventsPerSecond > 0)
  t.ok(result.p50Ms > 0 && result.p50Ms <= result.p99Ms && result.p99Ms <= result.maxMs)
  await server.close()
})

t.test('the processor time of the server is that of an event', { skip }, async (t) => {
  const { server, options } = await serveIngest(t)
  // this process both serves and sends; Linux counts ticks of 10 ms, and a busy machine may grant few
  const watched = { pid: process.pid, helpers: [] }
  const { events, processor } = await sendLoad({ ...options, seconds: 1, watched })
  const total = totalOf(processor) ?? 0
  const used = process.cpuUsage()
  t.ok(total > 0 && total * events <= used.user + used.system + 20_000, `${total} of ${used.user} µs`)
  t.equal((await sendLoad(options)).processor, undefined)
  await server.close()
})

t.test('all batches that are sent again are duplicates', async (t) => {
  const { server, options } = await serveIngest(t)
  const { seed, answered } = await sendLoad(options)
  t.ok(answered > 0)
  await sendLoad({ ...options, seed, resend: answered })
  await t.rejects(sendLoad({ ...options, seed }), /a wrong response where 10 events were new/)
  await server.close()
})

t.test('with repeats in the batches, the responses distinguish them from new events', async (t) => {
  const { server, options } = await serveIngest(t)
  for (const repeatShare of [0.1, 0.5]) await sendLoad({ ...options, repeatShare })
  await server.close()
})

t.test('an open loop sends only due batches', async (t) => {
  const { server, options } = await serveIngest(t)
  const begunAt = performance.now()
  const { batches } = await sendLoad({ ...options, batchesPerSecond: 200 })
  // of the whole run: batches that became due in the warm-up may be acknowledged during the measurement
  const due = Math.ceil((200 * (performance.now() - begunAt)) / 1000)
  t.ok(batches > 0 && batches <= due, `${batches} batches of ${due}`)
  await server.close()
})

t.test('a wrong response makes the run fail', async (t) => {
  const right = JSON.stringify({ accepted: 10, duplicates: 0, rejected: [] })
  const lies: [string, number, string][] = [
    ['another status', 200, right],
    ['a failure', 500, '{}'],
    ['one too few', 202, JSON.stringify({ accepted: 9, duplicates: 0, rejected: [] })],
    ['a wrong duplicate', 202, JSON.stringify({ accepted: 9, duplicates: 1, rejected: [] })],
    ['a rejection', 202, JSON.stringify({ accepted: 10, duplicates: 0, rejected: [{}] })],
    ['no JSON', 202, 'thank you'],
  ]
  for (const [name, status, body] of lies) {
    // the first response is right: a later wrong one still fails the run
    let left = 1
    const port = await listen(t, (req, res) => {
      req.resume().on('end', () => {
        const [code, text] = left-- > 0 ? [202, right] : [status, body]
        res.writeHead(code, { 'Content-Length': Buffer.byteLength(text) }).end(text)
      })
    })
    await t.rejects(sendLoad({ ...load, port }), /a wrong response/, name)
  }
})

t.test('a server that hangs up makes the run fail', async (t) => {
  const port = await listen(t, (req) => req.socket.destroy())
  await t.rejects(sendLoad({ ...load, port }))
})

t.test('a server that cannot keep up makes an open loop fail', async (t) => {
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
