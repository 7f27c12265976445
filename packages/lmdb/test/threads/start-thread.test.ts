import { IngestError } from '@ingest/core'
import t, { type Test } from 'tap'
import { type BytesRequest, runBytesWriter } from '../../src/chunks/blob-writer.ts'
import { openEnvironment } from '../../src/environment/environment.ts'
import { blobSlot } from '../../src/threads/exit-guard.ts'
import { runRequestLoop } from '../../src/threads/request-loop.ts'
import { startWorkerThread, type WorkerThreadOptions } from '../../src/threads/worker-thread.ts'

// the thread that writes the bytes of chunks, in this one: what threads are for their users is the same for all

async function open(t: Test, options: Partial<WorkerThreadOptions> = {}) {
  const environment = openEnvironment(t.testdir())
  const fatal: string[] = []
  const thread = await startWorkerThread<BytesRequest>({
    worker: new URL('../../src/chunks/blob-worker.js', import.meta.url),
    data: { guards: new Int32Array(new SharedArrayBuffer(12)) },
    slot: blobSlot,
    run: (port, guard) => runBytesWriter(port, environment, guard),
    onFatal: ({ code }) => fatal.push(code),
    timeoutMs: 10_000,
    ...options,
  })
  let lastId = 0
  t.teardown(async () => {
    await thread.close()
    await environment.root.close()
  })
  return {
    thread,
    fatal,
    write(name: string, bytes = 1) {
      const rows = [{ place: Buffer.from(name), bytes: Buffer.from(name) }]
      return thread.request<undefined>({ type: 'write', id: ++lastId, rows }, bytes)
    },
    names: () => [...environment.table('bytes').getKeys()].map(String),
  }
}

t.test('closing finishes what waits, and takes nothing more', async (t) => {
  const { thread, write, names } = await open(t)
  const before = write('before')
  const closed = thread.close()
  await t.rejects(write('after'), { code: 'store-closed' })
  t.equal(thread.unavailable()?.code, 'store-closed')
  t.equal(thread.failure(), undefined)
  await Promise.all([before, closed])
  t.strictSame(names(), ['before'])
})

t.test('what waits is bounded: the rest is refused at once, and loses nothing', async (t) => {
  const { write, names } = await open(t)
  const waiting = [write('a', 40 * 2 ** 20), write('b', 20 * 2 ** 20)]
  await t.rejects(write('c', 10 * 2 ** 20), { code: 'overloaded', retryAfterSeconds: 1, limit: 64 * 2 ** 20 })
  await Promise.all(waiting)
  await write('d', 100 * 2 ** 20)
  t.strictSame(names(), ['a', 'b', 'd'], 'what is larger than that is taken when nothing waits')
})

t.test('a commit that does not end is given up: the store has failed', async (t) => {
  const never = new Promise<never>(() => {})
  const { thread, write, fatal } = await open(t, {
    timeoutMs: 50,
    run(port, guard) {
      t.teardown(() => port.close())
      return runRequestLoop(port, guard, async () => ({
        requestBytes: () => 1,
        handle: () => never,
        close: async () => {},
      }))
    },
  })
  for (const each of [write('a'), write('b')]) {
    await t.rejects(each, { code: 'store-failed', message: 'has not ended within 50 ms' })
  }
  await t.rejects(write('c'), { code: 'store-failed' })
  t.equal(thread.failure()?.code, 'store-failed')
  t.strictSame(fatal, ['store-failed'])
})

t.test('a commit that has ended in time is no failure, however late this thread gets to know of it', async (t) => {
  const { write, fatal } = await open(t, { timeoutMs: 50 })
  for (const name of ['a', 'b']) {
    const written = write(name)
    const end = performance.now() + 200
    while (performance.now() < end);
    await written
  }
  t.strictSame(fatal, [])
})

t.test('a failure that was found elsewhere is everybody’s, and told once', async (t) => {
  const { thread, write, fatal } = await open(t)
  const waiting = write('waiting')
  thread.fail(new IngestError('store-failed', 'It is gone.'))
  thread.fail(new IngestError('store-failed', 'Another.'))
  for (const each of [waiting, write('after')]) await t.rejects(each, { message: 'It is gone.' })
  t.strictSame(fatal, ['store-failed'])
})

t.test('what cannot be sent is refused at once, and not waited for', async (t) => {
  const { thread, write } = await open(t)
  const rows = [{ place: Buffer.from('a'), bytes: (() => {}) as never }]
  await t.rejects(thread.request({ type: 'write', id: 100, rows }, 1), { name: 'DataCloneError' })
  await write('b')
})
