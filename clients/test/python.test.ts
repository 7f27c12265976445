import { execFile, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expectRules, startCommand } from '@ingest/checks/sender'
import { createIngest, openMemoryStore } from '@ingest/core'
import { serve } from '@ingest/server'
import t from 'tap'

const folder = fileURLToPath(new URL('../python', import.meta.url))
const source = join(folder, 'src')
// the interpreter itself: `python3` may be a script of a version manager, which doubles the time of each start
const lookUp = 'import sys; sys.exit(1) if sys.version_info < (3, 9) else print(sys.executable)'
const python = spawnSync('python3', ['-c', lookUp], { encoding: 'utf8' }).stdout?.trim()
const options = python ? {} : { skip: 'Python 3.9 or later is not installed' }
const run = promisify(execFile)

t.test('its unit tests pass', options, async (t) => {
  const { stderr } = await run(python, ['-W', 'error', '-m', 'unittest', 'discover', join(folder, 'test')])
  t.match(stderr, /^OK$/m)
})

t.test('it keeps the rules for clients', options, async (t) => {
  await expectRules(t, { start: startCommand(python, [join(folder, 'conformance.py')]), hasSpool: true })
})

t.test('its example stores an event', options, async (t) => {
  const ingest = createIngest({ store: openMemoryStore() })
  const { key } = await ingest.keys.create('demo')
  const server = await serve({ ingest, port: 0 })
  t.teardown(() => server.close())
  const env = { ...process.env, PYTHONPATH: source, INGEST_URL: server.url, INGEST_PROJECT_ID: 'demo', INGEST_KEY: key }
  const { stdout } = await run(python, [join(folder, 'example.py')], { cwd: t.testdir(), env })
  t.match(stdout, 'Stats(accepted=1, duplicates=0,')
  const stored: unknown[] = []
  for await (const { bytes } of ingest.project('demo').readEvents())
    stored.push(JSON.parse(Buffer.from(bytes).toString()))
  t.match(stored, [{ type: 'round.start', buildId: '2026.11.20' }])
})
