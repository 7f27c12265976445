import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import type { ServeSettings } from '../../src/serve/serve-settings.ts'
import { startWorkerProcess } from '../../src/workers/worker-process.ts'

function settingsFor(store: string): ServeSettings {
  return {
    store,
    migrate: true,
    listen: { host: '127.0.0.1', port: 0 },
    cors: [],
    console: false,
    keepRejected: false,
    drainTimeoutMs: 1000,
    metricsProjects: 1,
    publicationBytesMax: 2 ** 20,
    pendingMapBytesMax: 2 ** 20,
    retention: [],
    workers: 1,
    logLevel: 'silent',
    logFormat: 'json',
    json: false,
  }
}

t.test('metrics that were collected are not kept while the worker runs', async (t) => {
  const settings = settingsFor(t.testdir())
  const worker = startWorkerProcess({ id: 1, count: 1, settings, isMeasured: true }, process.env)
  t.ok(await worker.listening)
  const collect = async () => new WeakRef((await worker.collect()) ?? [])
  const first = await collect()
  t.ok(first.deref()?.length)
  // the last message is kept by Node
  await collect()
  await new Promise(setImmediate)
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  t.equal(first.deref(), undefined)

  worker.kill()
  const pending = worker.collect()
  t.match(await worker.ended, { signal: 'SIGKILL' })
  t.equal(await pending, undefined)
  t.equal(await worker.collect(), undefined)
})
