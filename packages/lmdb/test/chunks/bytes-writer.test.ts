import { once } from 'node:events'
import { MessageChannel } from 'node:worker_threads'
import t from 'tap'
import { type BytesRequest, runBytesWriter, sizeOf } from '../../src/chunks/blob-writer.ts'
import { openEnvironment } from '../../src/environment/environment.ts'

t.test('bytes are written and removed as they were asked, and each is answered', async (t) => {
  const environment = openEnvironment(t.testdir())
  const { port1, port2 } = new MessageChannel()
  const ended = runBytesWriter(port2, environment, { enterNative() {}, leaveNative() {} })
  t.strictSame(await once(port1, 'message'), [{ type: 'ready' }])
  async function ask(request: BytesRequest) {
    port1.postMessage(request)
    const [{ outcomes }] = await once(port1, 'message')
    return outcomes
  }
  const row = (name: string) => ({ place: Buffer.from(name), bytes: new TextEncoder().encode(`bytes of ${name}`) })
  t.match(await ask({ type: 'write', id: 1, rows: [row('a'), row('b')] }), [
    { id: 1, value: [{ byteLength: 10 }, { byteLength: 10 }] },
  ])
  t.match(await ask({ type: 'write', id: 2, rows: [row('c')] }), [{ id: 2 }])
  t.match(await ask({ type: 'remove', id: 3, places: [Buffer.from('b'), Buffer.from('never')] }), [{ id: 3 }])
  t.strictSame(
    Array.from(environment.table('bytes').getRange({}), ({ key, value }) => `${key}: ${value}`),
    ['a: bytes of a', 'c: bytes of c'],
  )
  t.equal(sizeOf({ type: 'write', id: 4, rows: [row('a'), row('b')] }), 20)
  port1.postMessage({ type: 'close' })
  await ended
  port1.close()
  await environment.root.close()
})

t.test('memory that bytes came in changes hands with the answer', async (t) => {
  const environment = openEnvironment(t.testdir())
  const { port1, port2 } = new MessageChannel()
  const handedOver: unknown[] = []
  const post = port2.postMessage.bind(port2)
  port2.postMessage = (message: unknown, transfer: ArrayBuffer[]) => {
    post(message, transfer)
    handedOver.push(...transfer)
  }
  const ended = runBytesWriter(port2, environment, { enterNative() {}, leaveNative() {} })
  await once(port1, 'message')
  const bytes = new TextEncoder().encode('bytes')
  port1.postMessage({ type: 'write', id: 1, rows: [{ place: Buffer.from('a'), bytes }] })
  await once(port1, 'message')
  t.match(handedOver, [{ byteLength: 0 }], 'it is gone from there')
  port1.postMessage({ type: 'close' })
  await ended
  port1.close()
  await environment.root.close()
})
