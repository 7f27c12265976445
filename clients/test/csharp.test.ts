import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { buffer, text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { createIngest, openMemoryStore } from '@ingest/core'
import { createHandler } from '@ingest/server'
import t, { type Test } from 'tap'

type Step = (response: ServerResponse) => unknown

const clients = fileURLToPath(new URL('..', import.meta.url))
const compiler = ['-langversion:7', '-warn:4', '-r:System.Net.Http', '-r:System.Core']
const sender = 'csharp/Runtime/IngestSender.cs'
const missing = ['mcs', 'mono'].find((tool) => spawnSync(tool, ['--version']).status !== 0)
const options = missing === undefined ? {} : { skip: `${missing} is not installed` }

const projectId = 'game-1'
const lines = ['{"type":"a","n":1}', '{"type":"b","exact":12345678901234567890.10, "s":"\\u00e4ä"}', ' { } ']
const refusing: Step = (response) => response.writeHead(503).end()

t.test('the sender, its files for Unity and the examples compile', options, async (t) => {
  const unity = ['csharp/Runtime/UnityWebRequestTransport.cs', 'csharp/Samples~/Behaviour/IngestBehaviour.cs']
  const examples = ['UnityEngine', 'Game', 'Server'].map((name) => `test/csharp/${name}.cs`)
  const warnings = compile(t, ['-target:library', '-define:UNITY_2021_2_OR_NEWER', sender, ...unity, ...examples])
  t.equal(warnings, '')
})

t.test('the sender has at most 400 lines', async (t) => {
  t.ok(readFileSync(join(clients, sender), 'utf8').split('\n').length <= 401)
})

t.test('events are stored once, in their order, with the bytes of the game', options, async (t) => {
  const start = build(t)
  const { ingest, env, bodies } = await startServer(t, [refusing, (response) => response.writeHead(202).end('{}')])
  const child = start(env)
  child.stdin.end(`${lines.join('\n')}\n`)
  t.strictSame(await resultOf(child), { accepted: 3, duplicates: 0, rejected: 0, dropped: {}, unsent: 0 })
  t.equal(new Set(bodies.map(String)).size, 1, 'each attempt has the same bytes')
  const stored = await storedIn(ingest)
  t.strictSame(
    stored.map((event) => event.replace(/"eventId":"[\da-f-]{36}",?/, '')),
    [
      `{"projectId":"game-1",${lines[0]?.slice(1)}`,
      `{"projectId":"game-1",${lines[1]?.slice(1)}`,
      '{"projectId":"game-1", }',
    ],
  )
})

t.test('events of a killed process are sent by the next one, with the same ids', options, async (t) => {
  const start = build(t)
  const spool = join(t.testdirName, 'spool')
  const failing = await startServer(t, Array(1000).fill(refusing))
  const child = start({ ...failing.env, INGEST_SPOOL: spool })
  child.stdin.write(`${lines.join('\n')}\n`)
  await Promise.race([once(failing.server, 'request'), once(child, 'exit')])
  child.kill('SIGKILL')
  await once(child, 'exit')
  const { ingest, env } = await startServer(t, [])
  const next = start({ ...env, INGEST_SPOOL: spool })
  next.stdin.end('')
  t.strictSame(await resultOf(next), { accepted: 3, duplicates: 0, rejected: 0, dropped: {}, unsent: 0 })
  t.equal(`{"events":[${(await storedIn(ingest)).join(',')}]}`, String(failing.bodies[0]))
  t.strictSame(readdirSync(spool), ['lock.game-1.spool'])
})

/** Compiles to a program in a directory of the test; returns what the compiler says. */
function compile(t: Test, args: string[], out = join(t.testdir(), 'sender.dll')): string {
  return execFileSync('mcs', [...compiler, `-out:${out}`, ...args], { cwd: clients, encoding: 'utf8' })
}

/** Returns a function that starts the sender as a program. */
function build(t: Test) {
  const program = join(t.testdir(), 'conformance.exe')
  compile(t, [sender, 'test/csharp/Conformance.cs'], program)
  return (env: NodeJS.ProcessEnv) => {
    const child = spawn('mono', [program], { env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'inherit'] })
    t.teardown(() => child.kill('SIGKILL'))
    return child
  }
}

async function resultOf(child: ReturnType<ReturnType<typeof build>>): Promise<unknown> {
  const [[code], output] = await Promise.all([once(child, 'exit'), text(child.stdout)])
  if (code !== 0) throw new Error(`The program ended with ${code}.`)
  return JSON.parse(output)
}

/** An Ingest behind a server that first responds as the script says. */
async function startServer(t: Test, script: readonly Step[]) {
  const ingest = createIngest({ store: openMemoryStore() })
  const { key } = await ingest.keys.create(projectId)
  const handler = createHandler(ingest)
  const bodies: Buffer[] = []
  const server = createServer(async (request, response) => {
    const step = script[bodies.length]
    if (!step) return handler(request, response)
    bodies.push(await buffer(request))
    step(response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const env = {
    INGEST_URL: `http://127.0.0.1:${port}`,
    INGEST_PROJECT: projectId,
    INGEST_KEY: key,
    INGEST_TIME_SCALE: '0.001',
    INGEST_FLUSH_MS: '10',
  }
  return { ingest, server, bodies, env }
}

async function storedIn(ingest: ReturnType<typeof createIngest>): Promise<string[]> {
  const stored: string[] = []
  for await (const { bytes } of ingest.project(projectId).readEvents()) stored.push(String(bytes))
  return stored
}
