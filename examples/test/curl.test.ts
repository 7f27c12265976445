import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer, text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { createIngest, openMemoryStore } from '@ingest/core'
import { toFetchHandler } from '@ingest/server'
import t, { type Test } from 'tap'

type Step = (response: ServerResponse) => unknown

const examples = fileURLToPath(new URL('..', import.meta.url))
const projectId = 'demo'
const event = (eventId: string) => JSON.stringify({ projectId, eventId, score: 12345678901234567890n.toString() })
const lines = `${event('e-1')}\n${event('e-2')}\n`

const isInstalled = spawnSync('curl', ['--version']).status === 0
const options = isInstalled ? {} : { skip: 'curl is not installed' }

/** Sends the lines to a server that first responds as the script says. */
async function run(t: Test, script: Step[], input = lines) {
  const server = await startServer(t, script)
  const child = start(server)
  child.stdin.end(input)
  const [[code], output, errors] = await Promise.all([once(child, 'exit'), text(child.stdout), text(child.stderr)])
  return { code, output, errors, bodies: server.bodies }
}

const foreign = ['<html>welcome', '{"accepted":2}', '{"accepted":1,"duplicates":0,"rejected":[]}']
const retried: Record<string, Step[]> = {
  'until a batch is stored': [
    (response) => response.writeHead(503).end(),
    (response) => response.writeHead(429, { 'Retry-After': '1' }).end(),
  ],
  'after a 202 that does not account for each event': foreign.map(
    (body) => (response) => response.writeHead(202, { 'Content-Type': 'application/json' }).end(body),
  ),
}
for (const [when, script] of Object.entries(retried)) {
  t.test(`curl/send.sh retries the same bytes ${when}`, options, async (t) => {
    const { code, output, errors, bodies } = await run(t, script)
    t.equal(code, 0, errors)
    t.strictSame(JSON.parse(output), { accepted: 2, duplicates: 0, rejected: [] })
    t.equal(bodies.length, script.length + 1)
    t.equal(new Set(bodies.map(String)).size, 1)
  })
}

t.test('curl/send.sh follows no redirect', options, async (t) => {
  const other = await startServer(t, [])
  const Location = `${other.env.INGEST_URL}/v1/events/batch`
  const script = [302, 307].map(
    (status): Step =>
      (response) =>
        response.writeHead(status, { Location }).end(),
  )
  const { code, errors, bodies } = await run(t, script)
  t.equal(code, 0, errors)
  t.equal(bodies.length, 3)
  t.equal(other.bodies.length, 0, 'the other host gets no request, and no key')
})

t.test('curl/send.sh counts rejected events', options, async (t) => {
  const eventId = '{"index":'
  const { code, output, errors, bodies } = await run(
    t,
    [],
    `${lines}\n${JSON.stringify({ projectId, eventId, buildId: 5 })}`,
  )
  t.equal(code, 0, errors)
  t.match(JSON.parse(output), { accepted: 2, duplicates: 0, rejected: [{ index: 2, eventId }] })
  t.equal(bodies.length, 1)
})

t.test('curl/send.sh drops a batch that is refused', options, async (t) => {
  const { code, errors, bodies } = await run(t, [(response) => response.writeHead(413).end()])
  t.equal(code, 1)
  t.match(errors, 'dropped: 413')
  t.equal(bodies.length, 1)
})

t.test('curl/send.sh pauses after a 401', options, async (t) => {
  const server = await startServer(t, [(response) => response.writeHead(401).end()])
  const child = start(server)
  child.stdin.end(lines)
  const [words] = await once(child.stderr, 'data')
  t.match(String(words), '401: sending pauses for 5 minutes')
  // kill the group, because the shell has started curl as a process of its own
  process.kill(-(child.pid as number), 'SIGKILL')
  await once(child, 'exit')
  t.equal(server.bodies.length, 1)
})

function start({ env }: { env: NodeJS.ProcessEnv }) {
  return spawn('sh', ['curl/send.sh'], {
    cwd: examples,
    env: { ...process.env, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  })
}

/** An Ingest behind a server that first responds as the script says, until the end of the test. */
async function startServer(t: Test, script: readonly Step[]) {
  const ingest = createIngest({ store: openMemoryStore() })
  const { key } = await ingest.keys.create(projectId)
  const handler = toFetchHandler(ingest)
  const bodies: Buffer[] = []
  const server = createServer(async (request, response) => {
    const body = await buffer(request)
    bodies.push(body)
    const scripted = script[bodies.length - 1]
    if (scripted) {
      scripted(response)
      return
    }
    const headers = Object.entries(request.headers).map(([name, value]): [string, string] => [name, String(value)])
    const stored = await handler(new Request(`http://localhost${request.url}`, { method: 'POST', headers, body }))
    response.writeHead(stored.status, Object.fromEntries(stored.headers)).end(await stored.text())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { bodies, env: { INGEST_URL: `http://127.0.0.1:${port}`, INGEST_PROJECT_ID: projectId, INGEST_KEY: key } }
}
