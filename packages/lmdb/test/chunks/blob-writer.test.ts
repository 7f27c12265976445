import { once } from 'node:events'
import { MessageChannel } from 'node:worker_threads'
import t from 'tap'
import { type BlobRequest, type BlobWriterData, runBlobWriter, sizeOf } from '../../src/chunks/blob-writer.ts'
import { openEnvironment } from '../../src/environment/environment.ts'
import { createCommitState } from '../../src/threads/commit-state.ts'

t.test('blobs are written and removed, and each request has an outcome', async (t) => {
  const environment = await openEnvironment(t.testdir())
  const { port1, port2 } = new MessageChannel()
  const data = { commitState: createCommitState() } as BlobWriterData
  const ended = runBlobWriter(port2, environment, data, { enterNative() {}, leaveNative() {} })
  t.strictSame(await once(port1, 'message'), [{ type: 'ready' }])
  async function ask(request: BlobRequest) {
    port1.postMessage([request])
    const [{ outcomes }] = await once(port1, 'message')
    return outcomes
  }
  const row = (name: string) => ({ blobKey: Buffer.from(name), bytes: new TextEncoder().encode(`bytes of ${name}`) })
  t.match(await ask({ type: 'write', id: 1, rows: [row('a'), row('b')] }), [{ id: 1, value: true }])
  t.match(await ask({ type: 'write', id: 2, rows: [row('c')] }), [{ id: 2, value: true }])
  const blobKeys = [Buffer.from('b'), Buffer.from('never')]
  t.match(await ask({ type: 'remove', id: 3, blobKeys }), [{ id: 3, value: true }])
  t.strictSame(
    Array.from(environment.table('bytes').getRange({}), ({ key, value }) => `${key}: ${value}`),
    ['a: bytes of a', 'c: bytes of c'],
  )
  t.equal(sizeOf({ type: 'write', id: 4, rows: [row('a'), row('b')] }), 20)
  port1.postMessage({ type: 'close' })
  await ended
  port1.close()
  await environment.close()
})
