import { join } from 'node:path'
import t from 'tap'
import { startIndexWorker } from '../../src/ids/index-worker-handle.ts'

function start(directory: string) {
  const ends = { count: 0 }
  const worker = startIndexWorker(
    {
      directory: join(directory, 'ids'),
      fileIds: 'none',
      logDirectory: join(directory, 'events'),
      logFileIds: 'none',
      seed: 'seed',
      entriesPerFlush: 10,
      guards: new Int32Array(new SharedArrayBuffer(8)),
    },
    {
      onFilter: () => {},
      onDamage: () => {},
      onTrouble: () => {},
      onEnd: () => {
        ends.count++
      },
    },
  )
  return { worker, ends }
}

t.test('a thread that dies says so, and whoever waits for it need not wait on', async (t) => {
  const { worker, ends } = start(t.testdir({ events: 'no directory' }))
  await worker.changed(60_000)
  t.equal(ends.count, 1)
  await worker.close()
})

t.test('a thread ends when it is asked to, with nothing to do and in the middle of its start', async (t) => {
  const idle = start(t.testdir({ one: {} }))
  idle.worker.wake()
  await idle.worker.changed(60_000)
  await idle.worker.close()
  t.equal(idle.ends.count, 1)
  const young = start(join(t.testdirName, 'one'))
  await young.worker.close()
  t.equal(young.ends.count, 1)
})
