import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { expectRules, startCommand } from '@ingest/checks/sender'
import { createIngest, followEvents, openMemoryStore } from '@ingest/core'
import { serve } from '@ingest/server'
import t, { type Test } from 'tap'

const clients = fileURLToPath(new URL('..', import.meta.url))
const compiler = ['-langversion:7', '-warn:4', '-r:System.Net.Http', '-r:System.Core']
const sender = 'csharp/Runtime/IngestSender.cs'
const missing = ['mcs', 'mono'].find((tool) => spawnSync(tool, ['--version']).status !== 0)
const options = missing === undefined ? {} : { skip: `${missing} is not installed` }

t.test('its files for Unity and its examples compile, and it does what README.md says', options, async (t) => {
  const unity = ['csharp/Runtime/UnityWebRequestTransport.cs', 'csharp/Samples~/Behaviour/IngestBehaviour.cs']
  const others = ['UnityEngine', 'Game', 'Server', 'Checks'].map((name) => `test/csharp/${name}.cs`)
  const program = join(t.testdir({ directory: {} }), 'checks.exe')
  const args = ['-main:Ingest.Checks', '-define:UNITY_2021_2_OR_NEWER', sender, ...unity, ...others]
  t.equal(compile(program, args), '')
  const { stdout, stderr } = spawnSync('mono', [program, join(t.testdirName, 'directory')], { encoding: 'utf8' })
  t.equal(stderr, '')
  const lines = stdout.trim().split('\n')
  const count = readFileSync(join(clients, 'test/csharp/Checks.cs'), 'utf8').split('[Check]').length - 1
  t.equal(lines.length, count)
  t.strictSame(
    lines.filter((line) => !/^\w+: ok$/.test(line)),
    [],
  )
})

t.test('it keeps the rules for clients', options, async (t) => {
  const interim = 'HttpClient of Mono takes an interim response for the final one'
  const program = { start: startCommand('mono', [build(t)]), hasSpool: true }
  await expectRules(t, program, { interim, 'interim-100': interim })
})

t.test('it keeps the bytes of an event', options, async (t) => {
  const ingest = createIngest({ store: openMemoryStore() })
  const { key } = await ingest.keys.create('demo')
  const server = await serve({ ingest, port: 0 })
  t.teardown(() => server.close())
  const env = { ...process.env, INGEST_URL: server.url, INGEST_PROJECT_ID: 'demo', INGEST_KEY: key }
  const child = spawn('mono', [build(t)], { env, stdio: ['pipe', 'pipe', 'inherit'] })
  child.stdin.end(
    ' { } \n{"exact":12345678901234567890.10, "s":"\\u00e4ä\\/"}\n{"s":"\\ud800\n[]\n{"a":01}\n{"eventId":7}\n',
  )
  const [output] = await Promise.all([text(child.stdout), once(child, 'exit')])
  t.match(
    JSON.parse(lastLine(output)),
    { accepted: 2, dropped: {}, unsent: 0 },
    'what is no event is refused by itself',
  )
  const stored: string[] = []
  for await (const { bytes } of ingest.project('demo').readEvents()) stored.push(Buffer.from(bytes).toString())
  t.strictSame(
    stored.map((event) => event.replace(/"eventId":"[\da-f-]{36}"/, '"eventId":"…"')),
    [
      '{"projectId":"demo","eventId":"…" }',
      '{"projectId":"demo","eventId":"…","exact":12345678901234567890.10, "s":"\\u00e4ä\\/"}',
    ],
  )
})

t.test('a second process on a spool is refused', options, async (t) => {
  const ingest = createIngest({ store: openMemoryStore() })
  const { key } = await ingest.keys.create('demo')
  const server = await serve({ ingest, port: 0 })
  t.teardown(() => server.close())
  const program = build(t)
  const INGEST_SPOOL = join(t.testdirName, 'spool')
  const env = { ...process.env, INGEST_URL: server.url, INGEST_PROJECT_ID: 'demo', INGEST_KEY: key, INGEST_SPOOL }
  const first = spawn('mono', [program], { env, stdio: ['pipe', 'pipe', 'inherit'] })
  t.teardown(() => first.kill())
  first.stdin.write('{}\n\n')
  for await (const _ of followEvents(ingest.project('demo'))) break
  const second = spawnSync('mono', [program], { env, input: '', encoding: 'utf8' })
  t.not(second.status, 0)
  t.match(second.stderr, 'IOException')
  first.stdin.end()
  t.match(JSON.parse(lastLine(await text(first.stdout))), { accepted: 1, unsent: 0 })
})

/** The counts, after the lines for taken events. */
function lastLine(output: string): string {
  return output.trimEnd().split('\n').at(-1) ?? ''
}

/** Returns what the compiler says. */
function compile(out: string, args: string[]): string {
  return execFileSync('mcs', [...compiler, `-out:${out}`, ...args], { cwd: clients, encoding: 'utf8' })
}

/** The sender as a program. */
function build(t: Test): string {
  const program = join(t.testdir(), 'conformance.exe')
  compile(program, [sender, 'test/csharp/Conformance.cs'])
  return program
}
