import { execFile, spawnSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expectRules, startCommand } from '@ingest/checks/sender'
import { createIngest, openMemoryStore } from '@ingest/core'
import { serve } from '@ingest/server'
import t, { type Test } from 'tap'

const cwd = fileURLToPath(new URL('../go', import.meta.url))
const isInstalled = spawnSync('go', ['version']).status === 0
const options = isInstalled ? {} : { skip: 'Go is not installed' }
const run = promisify(execFile)

t.test('it is formatted, and vet finds nothing', options, async (t) => {
  t.equal((await run('gofmt', ['-l', '.'], { cwd })).stdout, '')
  await run('go', ['vet', './...'], { cwd })
})

t.test('its unit tests pass', options, async () => {
  await run('go', ['test', '-count=1', './...'], { cwd })
})

t.test('it keeps the rules for clients', options, async (t) => {
  await expectRules(t, { start: startCommand(await build(t, 'conformance')), hasSpool: true })
})

t.test('its example stores an event', options, async (t) => {
  const ingest = createIngest({ store: openMemoryStore() })
  const { key } = await ingest.keys.create('demo')
  const server = await serve({ ingest, port: 0 })
  t.teardown(() => server.close())
  const env = { ...process.env, INGEST_URL: server.url, INGEST_PROJECT_ID: 'demo', INGEST_KEY: key }
  const program = await build(t, 'example')
  const { stdout } = await run(program, [], { cwd: dirname(program), env })
  t.match(stdout, '{Accepted:1 Duplicates:0 ')
  const stored: unknown[] = []
  for await (const { bytes } of ingest.project('demo').readEvents())
    stored.push(JSON.parse(Buffer.from(bytes).toString()))
  t.match(stored, [{ type: 'round.start', buildId: '2026.11.20' }])
})

async function build(t: Test, name: string): Promise<string> {
  const program = join(t.testdir(), name)
  await run('go', ['build', '-o', program, `./cmd/${name}`], { cwd })
  return program
}
