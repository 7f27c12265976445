import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import t from 'tap'
import { startServe } from '../ingest-process.ts'
import { ingest } from '../run-ingest.ts'

const day = 86_400_000
t.test('the times of a clock that was ahead are found, and a copy has earlier ones', async (t) => {
  // a wrong clock for all threads, those of the store too
  const ahead = `
    const now = Date.now
    Date.now = () => now() + ${70 * 365 * day}
    const threads = require('node:worker_threads')
    threads.Worker = class extends threads.Worker {
      constructor(module, options) {
        super(module, { ...options, execArgv: ['--require', __filename] })
      }
    }
    require('node:module').syncBuiltinESMExports()`
  const directory = t.testdir({ 'ahead.cjs': ahead })
  const [data, copy] = [join(directory, 'data'), join(directory, 'copy')]
  const program = `
    import { createIngest } from ${JSON.stringify(import.meta.resolve('@ingest/core'))}
    import { openLmdbStore } from ${JSON.stringify(import.meta.resolve('@ingest/lmdb'))}
    const ingest = createIngest({ store: await openLmdbStore(${JSON.stringify(data)}) })
    await ingest.project('p').submitBatch({ events: [{ projectId: 'p', eventId: 'e-1', buildId: 'b' }] })
    await ingest.close()`
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    env: { ...process.env, NODE_OPTIONS: `--require ${join(directory, 'ahead.cjs')}` },
  })
  t.equal(status, 0, String(stderr))
  const env = { INGEST_STORE: data }
  const warned = await ingest(['erase', '--older-than', '90d', '--yes'], { env })
  t.match(warned, { code: 0, stderr: /which is in the future.*`ingest copy --latest`/ })
  const server = await startServe(t, ['--store', data])
  while (!/in the future.*ingest copy --latest/.test(server.stderr() + server.stdout())) await server.nextError()
  server.signal('SIGTERM')
  t.match(await server.exited, { code: 0 })
  const run = (...args: string[]) => ingest(['copy', '--from', data, '--to', copy, ...args])
  t.match(await run(), { code: 3, stderr: /in the future.*--latest/ })
  const latest = new Date(Date.now() - 3_600_000).toISOString()
  t.match(await run('--latest', latest), { code: 0 })
  t.match(await run('--latest', latest), { code: 0 }, 'again')
  const embedded = createIngest({ store: await openLmdbStore(copy) })
  const project = embedded.project('p')
  t.equal((await project.findEvent('e-1'))?.receivedAt, Date.parse(latest))
  t.match(await project.listBuilds(), { builds: [{ buildId: 'b', frozenAt: Date.parse(latest) }] })
  t.equal((await embedded.findClockDoubt())?.mayBeAhead, undefined)
  await embedded.close()
})
