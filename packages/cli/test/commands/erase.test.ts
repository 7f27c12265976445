import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import t, { type Test } from 'tap'
import { startServe } from '../ingest-process.ts'
import { ingest } from '../run-ingest.ts'

const day = 86_400_000
const start = Date.parse('2026-01-01T00:00:00Z')

/** A store with an event on each of 20 days, and none since. */
async function makeIdleStore(t: Test): Promise<string> {
  const data = join(t.testdir(), 'data')
  let time = start
  const embedded = createIngest({ store: await openLmdbStore(data), now: () => time })
  for (let i = 0; i < 20; i++, time += day) {
    await embedded.project('p').submitBatch({ events: [{ projectId: 'p', eventId: `e-${i}` }] })
  }
  await embedded.close()
  return data
}

t.test('nothing is erased by an age that only the clock confirms; a time erases', async (t) => {
  const env = { INGEST_STORE: await makeIdleStore(t) }
  const erase = (age: string, ...args: string[]) => ingest(['erase', '--older-than', age, ...args], { env })
  const doubt = /Only the clock says that the time from 2026-01-20T00:00:00.000Z to .* has passed/
  t.match(await erase('90d', '--yes'), { code: 3, stdout: '', stderr: doubt })
  t.match(await erase('90d', '--dry-run', '--json'), { code: 0, stdout: /"events":20/, stderr: doubt })
  t.match(await erase('90d', '--dry-run'), {
    code: 0,
    stdout: /^PROJECT +OLDER +BYTES\np +20 /,
    stderr: /^ingest: Without --dry-run, this age is refused\. Only/,
  })
  t.match(await erase('2026-01-11T00:00:00Z', '--dry-run'), { code: 0, stdout: /WOULD ERASE +BYTES\np +10 / })
  t.match(await erase('2026-01-11T00:00:00Z', '--yes', '--json'), { code: 0, stdout: /"events":10/, stderr: doubt })
  t.match(await erase('2199-01-01T00:00:00Z', '--yes'), { code: 2, stderr: /a time before now/ })
  t.match(await erase('yesterday', '--yes'), { code: 2, stderr: /a duration such as 90d, or a time/ })
})

t.test('the times of a clock that was ahead are found, and a copy has earlier ones', async (t) => {
  // the wrong clock of a machine: of all threads, those of the store too
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
