import { constants } from 'node:os'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { MessageChannel } from 'node:worker_threads'
import { IngestError } from '@ingest/core'
import t, { type Test } from 'tap'
import type { BlobRequest } from '../../src/chunks/blob-writer.ts'
import { type Environment, openEnvironment } from '../../src/environment/environment.ts'
import { createCommitState } from '../../src/threads/commit-state.ts'
import { deserializeError, serializeError } from '../../src/threads/error-transfer.ts'
import { blobSlot } from '../../src/threads/exit-guard.ts'
import { createInFlightRequests } from '../../src/threads/in-flight-requests.ts'
import { type RequestClientOptions, startRequestClient } from '../../src/threads/request-client.ts'
import { runRequestLoop, type ThreadMessage } from '../../src/threads/request-loop.ts'

/** A client of the thread that writes the content of chunks. */
async function openClient(t: Test, options: Partial<RequestClientOptions> = {}) {
  const directory = t.testdir()
  const environment = await openEnvironment(directory)
  const contents = environment.table('bytes')
  const fatal: string[] = []
  const guards = new Int32Array(new SharedArrayBuffer(12))
  const client = await startRequestClient<BlobRequest>({
    module: new URL('../../src/chunks/blob-worker.js', import.meta.url),
    data: { guards, commitState: createCommitState(), directory, fileIds: environment.fileIds },
    slot: blobSlot,
    onFatal: ({ code }) => fatal.push(code),
    lockHolder: environment.lockHolder,
    newestTransaction: environment.newestTransaction,
    timeoutMs: 10_000,
    ...options,
  })
  t.teardown(async () => {
    await client.close()
    await environment.close()
  })
  return {
    environment,
    client,
    fatal,
    write(name: string, bytes = 1) {
      const rows = [{ blobKey: Buffer.from(name), bytes: Buffer.from(name) }]
      return client.request<undefined>({ type: 'write', rows }, bytes)
    },
    names() {
      environment.root.resetReadTxn()
      return [...contents.getKeys()].map(String)
    },
  }
}

/** Holds the write lock in this process, in which it is not mistaken for the lock of another process. */
async function holdWriteLock({ root }: Environment) {
  let release = () => {}
  let held: Promise<unknown> | undefined
  await new Promise<void>((resolve) => {
    held = root.transaction(() => {
      resolve()
      return new Promise<void>((end) => {
        release = end
      })
    })
  })
  return {
    release() {
      release()
      return held
    },
  }
}

t.test('closing finishes the requests in flight, and accepts no more', async (t) => {
  const { client, write, names } = await openClient(t)
  const before = write('before')
  const closed = client.close()
  await t.rejects(write('after'), { code: 'store-closed' })
  t.equal(client.unavailable()?.code, 'store-closed')
  t.equal(client.failure(), undefined)
  await Promise.all([before, closed])
  t.strictSame(names(), ['before'])
})

t.test('the bytes in flight are limited: further requests are rejected at once', async (t) => {
  const { write, names } = await openClient(t)
  const inFlight = [write('a', 40 * 2 ** 20), write('b', 20 * 2 ** 20)]
  await t.rejects(write('c', 10 * 2 ** 20), { code: 'overloaded', retryAfterSeconds: 1, limit: 64 * 2 ** 20 })
  await Promise.all(inFlight)
  await write('d', 100 * 2 ** 20)
  t.strictSame(names(), ['a', 'b', 'd'], 'a request over the limit is accepted when none is in flight')
})

t.test('requests that wait too long for the write lock are rejected, and never written', async (t) => {
  const { environment, client, write, names, fatal } = await openClient(t, { timeoutMs: 1000 })
  await write('before')
  const lock = await holdWriteLock(environment)
  for (const each of [write('a'), write('b')]) await t.rejects(each, { code: 'store-locked', retryAfterSeconds: 5 })
  await t.rejects(write('c'), { code: 'store-locked' })
  t.equal(client.inFlight().requests, 2, 'their memory counts until the thread has dropped them')
  await lock.release()
  while (client.unavailable()) await nextTurn()
  await write('d')
  t.strictSame(names(), ['before', 'd'])
  t.strictSame(fatal, [])
})

t.test('after a failure, requests that wait for the write lock are never written', async (t) => {
  const { environment, client, write, names } = await openClient(t)
  const lock = await holdWriteLock(environment)
  const waiting = write('waiting')
  await nextTurn()
  client.fail(new IngestError('store-failed', 'It is gone.'))
  await t.rejects(waiting, { code: 'store-failed' })
  await lock.release()
  await client.close()
  t.strictSame(names(), [])
})

t.test('a commit that ended in time is not a failure, however late its response is read', async (t) => {
  const { write, names, fatal } = await openClient(t, { timeoutMs: 50 })
  for (const name of ['a', 'b']) {
    const written = write(name)
    // requests are posted at the end of a turn
    await nextTurn()
    while (!names().includes(name));
    // long enough for the response to be sent, and for the timeout
    const end = performance.now() + 100
    while (performance.now() < end);
    await written
  }
  t.strictSame(fatal, [])
})

t.test('the time for which the process was stopped does not count towards a commit', async (t) => {
  const timeoutMs = 500
  let timedOutAt: number | undefined
  const inFlight = createInFlightRequests({
    state: createCommitState(),
    lockHolder: () => undefined,
    newestTransaction: () => 0,
    timeoutMs,
    onFatal: () => {
      timedOutAt = performance.now()
    },
    onBusy: () => {},
    onIdle: () => {},
  })
  inFlight.add({ bytes: 1, resolve: () => {}, reject: () => {} })
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2000)
  const continuedAt = performance.now()
  while (timedOutAt === undefined) await sleep(10)
  t.ok(timedOutAt - continuedAt >= timeoutMs, 'a commit that does not end then has failed')
})

t.test('a failure found elsewhere rejects every request, and is reported once', async (t) => {
  const { client, write, fatal } = await openClient(t)
  const inFlight = write('in flight')
  client.fail(new IngestError('store-failed', 'It is gone.'))
  client.fail(new IngestError('store-failed', 'Another.'))
  for (const each of [inFlight, write('after')]) await t.rejects(each, { message: 'It is gone.' })
  t.strictSame(fatal, ['store-failed'])
})

t.test('a thread that ends while it closes fails the requests that it has not settled', async (t) => {
  const code = `import { parentPort } from 'node:worker_threads'
    parentPort.on('message', () => process.exit())
    parentPort.postMessage({ type: 'ready' })`
  const module = new URL(`data:text/javascript,${encodeURIComponent(code)}`)
  const { client, write, fatal } = await openClient(t, { module, timeoutMs: 2 ** 30 })
  const inFlight = t.rejects(write('a'), { code: 'store-failed' })
  await Promise.all([inFlight, client.close()])
  t.strictSame(fatal, ['store-failed'])
})

t.test('a request that cannot be sent is rejected, and leaves nothing in flight', async (t) => {
  const { client, write } = await openClient(t)
  const rows = [{ blobKey: Buffer.from('a'), bytes: (() => {}) as never }]
  await t.rejects(client.request({ type: 'write', rows }, 1), { name: 'DataCloneError' })
  await write('b')
})

t.test('memory in two requests is sent with the first one, and does not stop others', async (t) => {
  const { client, write, names, fatal } = await openClient(t)
  const bytes = Buffer.from(new ArrayBuffer(8))
  const memory = bytes.buffer as ArrayBuffer
  const requests = ['first', 'second'].map((name) => {
    const rows = [{ blobKey: Buffer.from(name), bytes }]
    return client.request({ type: 'write', rows }, 1, { transfer: [memory] })
  })
  const settled = await Promise.allSettled([...requests, write('other')])
  t.strictSame(
    settled.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  )
  t.match(settled[1], { reason: { code: 'internal-error' } })
  t.strictSame(names(), ['first', 'other'])
  t.strictSame(fatal, [])
})

t.test(
  'requests that arrive together are handled together, in batches of about 16 MiB, after what only reads',
  async (t) => {
    const { port1, port2 } = new MessageChannel()
    const messages: ThreadMessage[] = []
    port1.on('message', (message) => messages.push(message))
    const batches: number[][] = []
    const guarded: string[] = []
    const guard = { enterNative: () => void guarded.push('enter'), leaveNative: () => void guarded.push('leave') }
    const ended = runRequestLoop<{ type: 'work'; id: number; bytes: number }>(port2, guard, async () => ({
      requestBytes: ({ bytes }) => bytes,
      isRead: ({ bytes }) => bytes === 0,
      async handle(requests, settle) {
        batches.push(requests.map(({ id }) => id))
        settle({ outcomes: requests.map(({ id }) => ({ id, value: id })) })
      },
      async close() {
        port2.postMessage({ type: 'closed' })
      },
    }))
    for (const id of [1, 2, 3]) port1.postMessage([{ type: 'work', id, bytes: 10 }])
    for (const id of [4, 5, 6]) port1.postMessage([{ type: 'work', id, bytes: 10 * 2 ** 20 }])
    port1.postMessage([{ type: 'work', id: 7, bytes: 0 }])
    port1.postMessage({ type: 'close' })
    await ended
    while ((messages.at(-1)?.type as string) !== 'closed') await new Promise(setImmediate)
    port1.close()
    t.strictSame(batches, [[7, 1, 2, 3, 4, 5], [6]])
    t.strictSame(guarded, ['leave', 'enter'], 'the guard is entered once for all of them')
    t.match(messages, [{ type: 'ready' }, { outcomes: [7, 1, 2, 3, 4, 5].map((id) => ({ id, value: id })) }, {}, {}])
  },
)

const failed = (code: number) => Object.assign(new Error('it said no'), { code })
const { EIO, ENOSPC, EDQUOT, EFBIG, ENOMEM } = constants.errno
const MDB_MAP_FULL = -30792

t.test('an error is the same in another thread', async (t) => {
  const details = { limit: 1, actual: 2, retryAfterSeconds: 3 }
  for (const error of [new IngestError('overloaded', 'Wait.', details), new IngestError('store-failed', 'No.')]) {
    const { name, code, message, limit, actual, retryAfterSeconds } = error
    const transferred = deserializeError(structuredClone(serializeError(error)))
    t.ok(transferred instanceof IngestError)
    t.match(transferred, { name, code, message, limit, actual, retryAfterSeconds })
  }
})

t.test('an error of a full disk is temporary, any other one fails the store', async (t) => {
  const [full, notFull] = [() => true, () => false]
  for (const code of [ENOSPC, EDQUOT, EFBIG, MDB_MAP_FULL]) {
    const expected = { code: 'disk-full', message: 'it said no', details: { retryAfterSeconds: 5 } }
    t.match(serializeError(failed(code)), expected)
  }
  t.match(serializeError(failed(EIO), full), { code: 'disk-full' })
  t.match(serializeError(failed(EIO), notFull), { code: 'store-failed', message: 'it said no' })
  t.match(serializeError(failed(EIO)), { code: 'store-failed' })
  t.match(serializeError(failed(ENOMEM), full), { code: 'store-failed' })
  t.match(serializeError(new RangeError('too far')), { code: 'store-failed', message: 'too far' })
  for (const thrown of ['a text', undefined, null]) t.match(serializeError(thrown), { code: 'store-failed' })
  const described = (sizes: string) => {
    const message = `No space left on device: Attempting to write page at position 44199936, size 32768, blocks 1, buffer sizes ${sizes}`
    return Object.assign(new Error(message), { code: ENOSPC })
  }
  t.match(serializeError(described('32768 4096 4096')), { code: 'disk-full' })
  const overrun = described('32768 268435457 262143')
  t.match(serializeError(overrun), { code: 'store-failed', message: 'the memory of the process cannot be trusted' })
})
