import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import t, { type Test } from 'tap'
import { ended, ingestCommand, ownEnvironment, spawnIngest } from './ingest-process.ts'
import { ingest } from './run-ingest.ts'
import { createKey, idsOf, projectId } from './served.ts'

const eventCount = 2000

/** A store with more events than any pipe holds. */
async function openFilled(t: Test): Promise<string[]> {
  const data = t.testdir()
  const store = createIngest({ store: await openLmdbStore(data) })
  const ids = idsOf('e', eventCount)
  for (let at = 0; at < ids.length; at += 100) {
    const events = ids.slice(at, at + 100).map((eventId) => ({ projectId, eventId, filler: 'x'.repeat(1000) }))
    await store.project(projectId).submitBatch({ events })
  }
  await store.close()
  return ['--data', data, '--project', projectId]
}

t.test('what is more than a pipe holds arrives whole', async (t) => {
  const store = await openFilled(t)
  const { code, stdout, stderr } = await ingest(['export', ...store])
  t.match({ code, stderr }, { code: 0, stderr: /^$/ })
  t.equal(stdout.split('\n').length, eventCount + 1)

  await t.test('a reader that goes away ends it quietly', async (t) => {
    for (const readBytes of [0, 1, 500_000]) {
      const { code, signal, stderr } = await spawnIngest(['export', ...store], { readBytes })
      t.strictSame({ code, signal, stderr }, { code: 0, signal: null, stderr: '' })
    }
  })

  await t.test('head takes what it wants', { skip: process.platform === 'win32' && 'there is no head' }, async (t) => {
    const script = '{ "$0" "$@"; echo "exit $?" >&2; } | head -n 1'
    const child = spawn('sh', ['-c', script, ...ingestCommand(['export', ...store])], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: ownEnvironment(),
    })
    const output = await ended(child)
    t.match(output.stdout, /^\{"cursor":.*"eventId":"e-0".*\}\n$/)
    t.equal(output.stderr, 'exit 0\n')
  })
})

t.test('a key list that nobody reads is no fault', async (t) => {
  const data = t.testdir()
  await createKey(data)
  const { code, stderr } = await spawnIngest(['keys', 'list', '--data', data, '--project', projectId], { readBytes: 0 })
  t.strictSame({ code, stderr }, { code: 0, stderr: '' })
})

t.test(
  'a full disk behind stdout: exit 6',
  { skip: !existsSync('/dev/full') && 'there is no /dev/full' },
  async (t) => {
    const store = await openFilled(t)
    for (const command of [['export'], ['keys', 'list']]) {
      const script = '"$0" "$@" > /dev/full'
      const child = spawn('sh', ['-c', script, ...ingestCommand([...command, ...store])], {
        stdio: ['ignore', 'pipe', 'pipe'],
        env: ownEnvironment(),
      })
      const { code, stderr } = await ended(child)
      t.match({ code, stderr }, { code: 6, stderr: /^ingest: standard output cannot be written: the disk is full\n$/m })
    }
  },
)
