import { once } from 'node:events'
import { MessageChannel } from 'node:worker_threads'
import { IngestError } from '@ingest/core'
import t, { type Test } from 'tap'
import { type RequestHandler, runRequestLoop, type ThreadMessage } from '../../src/threads/request-loop.ts'

interface Request {
  type: 'double'
  id: number
  bytes: number
}

function open(t: Test, { handle: answer, close, transferList: transferOf }: Partial<RequestHandler<Request>> = {}) {
  const { port1, port2 } = new MessageChannel()
  const groups: number[][] = []
  const passes: string[] = []
  const guard = { enterNative: () => void passes.push('enter'), leaveNative: () => void passes.push('leave') }
  const serving: RequestHandler<Request> = {
    requestBytes: ({ bytes }) => bytes,
    handle:
      answer ??
      (async (requests) => {
        groups.push(requests.map(({ id }) => id))
        return requests.map(({ id }) => ({ id, value: 2 * id }))
      }),
    close: close ?? (async () => {}),
    ...(transferOf && { transferList: transferOf }),
  }
  const said: ThreadMessage[] = []
  port1.on('message', (message) => said.push(message))
  const ended = runRequestLoop<Request>(port2, guard, async () => serving)
  t.teardown(() => port1.close())
  return {
    port: port1,
    said,
    groups,
    passes,
    ended,
    ask: (id: number, bytes = 1) => port1.postMessage({ type: 'double', id, bytes }),
    close: () => port1.postMessage({ type: 'close' }),
    /** All that was said before it ended. */
    async all(): Promise<ThreadMessage[]> {
      await ended
      port2.postMessage({ type: 'end' })
      while ((said.at(-1) as { type: string } | undefined)?.type !== 'end') await once(port1, 'message')
      return said.slice(0, -1)
    },
  }
}

t.test('memory in an answer changes hands with it', async (t) => {
  const memory = new ArrayBuffer(8)
  const { ask, close, all } = open(t, {
    handle: async (requests) => requests.map(({ id }) => ({ id, value: memory })),
    transferList: () => [memory],
  })
  ask(1)
  close()
  t.match(await all(), [{ type: 'ready' }, { type: 'settled', outcomes: [{ id: 1, value: { byteLength: 8 } }] }])
  t.equal(memory.byteLength, 0, 'and is gone from who answered')
})

t.test('what gathers is answered together, and then it closes', async (t) => {
  let isClosed = false
  const { ask, close, all, groups, passes } = open(t, {
    async close() {
      isClosed = true
    },
  })
  for (const id of [1, 2, 3]) ask(id)
  close()
  t.strictSame(await all(), [
    { type: 'ready' },
    { type: 'settled', outcomes: [1, 2, 3].map((id) => ({ id, value: 2 * id })) },
  ])
  t.strictSame(groups, [[1, 2, 3]])
  t.strictSame(passes, ['leave', 'enter'], 'it is inside as long as it works')
  t.ok(isClosed)
})

t.test('what is large is not all answered at once', async (t) => {
  const { ask, close, all, groups } = open(t)
  for (const id of [1, 2, 3, 4, 5]) ask(id, 10 * 2 ** 20)
  close()
  await all()
  t.strictSame(groups, [[1, 2], [3, 4], [5]])
})

t.test('what comes while it is busy is answered next, without leaving', async (t) => {
  const { ask, close, said, all, groups, passes, port } = open(t)
  ask(1)
  while (said.length < 2) await once(port, 'message')
  ask(2)
  while (said.length < 3) await once(port, 'message')
  close()
  await all()
  t.strictSame(groups, [[1], [2]])
  t.strictSame(passes, ['leave', 'enter', 'leave', 'enter', 'leave', 'enter'])
})

t.test('what cannot be opened, or fails as no request can, is said', async (t) => {
  const { port1, port2 } = new MessageChannel()
  t.teardown(() => port1.close())
  const said = once(port1, 'message')
  await runRequestLoop(port2, { enterNative() {}, leaveNative() {} }, async () => {
    throw new IngestError('disk-full', 'Full.')
  })
  t.match((await said)[0], { type: 'failed', error: { code: 'disk-full', message: 'Full.' } })

  const failing = open(t, {
    async handle() {
      throw new Error('Broken.')
    },
  })
  failing.ask(1)
  t.match(await failing.all(), [{ type: 'ready' }, { type: 'failed', error: { code: 'store-failed' } }])
})
