import cluster from 'node:cluster'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { startServe } from '../ingest-process.ts'
import { serveHere, startRun } from '../run-ingest.ts'
import { batchOf, createKey, exportedIds, idsOf, projectId, send } from '../served.ts'

t.setTimeout(120_000)

const quiet = ['--workers', '2', '--log-level', 'error']

interface Target {
  url: string
  key: string
}

/** Sends a batch on the one connection of the agent. */
function post(agent: Agent, { url, key }: Target, ids: readonly string[]): Promise<number> {
  const headers = { 'X-Project-Id': projectId, 'X-Ingestion-Key': key, 'Content-Type': 'application/json' }
  return new Promise((resolve, reject) => {
    const req = request(`${url}/v1/events/batch`, { method: 'POST', agent, headers }, (res) => {
      res.resume()
      res.once('end', () => resolve(res.statusCode ?? 0))
      res.once('error', reject)
    })
    req.once('error', reject)
    req.end(batchOf(ids))
  })
}

/** Sends batches until `isDone`, each until it is accepted; `ids` returns those of the n-th batch. */
async function sendAll(target: Target, agent: Agent, ids: (n: number) => readonly string[], isDone: () => boolean) {
  const acknowledged: string[] = []
  let lost = 0
  for (let n = 0; !isDone(); n++) {
    const batch = ids(n)
    let status = 0
    while (status !== 202 && !isDone()) {
      status = await post(agent, target, batch).catch(() => {
        lost++
        return 0
      })
    }
    if (status === 202) acknowledged.push(...batch)
  }
  return { acknowledged, lost }
}

const isWindows = process.platform === 'win32'

t.test('two workers store each event once, and one that is killed comes back', async (t) => {
  const data = t.testdir()
  const key = await createKey(data)
  const server = await serveHere(t, [
    '--data',
    data,
    '--rate-limit',
    '100000,1000000',
    '--admin-port',
    '0',
    '--console',
    ...quiet,
  ])
  const target = { url: server.url, key }
  const { headers } = await send(target, ['first'])
  t.match(headers.get('ratelimit-policy'), /q=100000\b/, 'half of a burst of 200,000 requests')

  t.equal((await fetch(`${server.url}/console/`)).status, 200)
  const credentials = { 'X-Project-Id': projectId, 'X-Ingestion-Key': key }
  const activity = await fetch(`${server.url}/v1/activity`, { headers: credentials })
  t.match(await activity.json(), { servers: 2 })

  const agents = Array.from({ length: 4 }, () => new Agent({ keepAlive: true, maxSockets: 1 }))
  t.teardown(() => {
    for (const agent of agents) agent.destroy()
  })
  for (const agent of agents) t.equal(await post(agent, target, ['first']), 202)
  let isDone = false
  // two senders have the same ids
  const load = agents.map((agent, i) =>
    sendAll(
      target,
      agent,
      (n) => idsOf(`e-${i % 2}-${n}`, 20),
      () => isDone,
    ),
  )

  const [victim, other] = Object.values(cluster.workers ?? {})
  const back = once(cluster, 'listening')
  victim?.process.kill('SIGKILL')
  await back
  t.notOk(other?.isDead())
  t.match(server.log(), [{ level: 50, worker: 1, signal: 'SIGKILL', msg: 'a worker ended: it is restarted' }])

  await t.test('SIGTERM drains both: what is acknowledged is stored', async (t) => {
    server.signal('SIGTERM')
    const ended = await server.exited
    isDone = true
    t.match(ended, { code: 0 })
    const sent = await Promise.all(load)
    const stored = await exportedIds(data)
    t.strictSame([...new Set(stored)].length, stored.length, 'nothing is stored twice')
    const missing = sent.flatMap(({ acknowledged }) => acknowledged).filter((id) => !stored.includes(id))
    t.strictSame(missing, [])
    t.ok(stored.length > 100)
  })
})

t.test('only requests of the worker that is killed fail', { skip: isWindows && 'nothing stops there' }, async (t) => {
  const data = t.testdir()
  const key = await createKey(data)
  const { url } = await serveHere(t, ['--data', data, ...quiet])
  const workers = Object.values(cluster.workers ?? {})
  // a connection is accepted by the worker that is not stopped
  const agents: Agent[] = []
  for (const [i, worker] of [...workers].reverse().entries()) {
    worker?.process.kill('SIGSTOP')
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    t.teardown(() => agent.destroy())
    agents.push(agent)
    t.equal(await post(agent, { url, key }, [`a-${i}`]), 202)
    worker?.process.kill('SIGCONT')
  }
  const back = once(cluster, 'listening')
  const lost = agents.map(async (agent, i) => {
    let count = 0
    for (let n = 0; n < 20; n++) {
      if (n === 5 && i === 0) workers[0]?.process.kill('SIGKILL')
      await post(agent, { url, key }, [`b-${i}-${n}`]).catch(() => count++)
    }
    return count
  })
  const [ofKilled, ofOther] = await Promise.all(lost)
  await back
  t.ok(ofKilled)
  t.equal(ofOther, 0)
})

t.test('workers that end again and again end the server', async (t) => {
  const { io: _, exited, nextLine, stderr } = startRun(['serve', '--data', t.testdir(), '--port', '0', ...quiet])
  await nextLine()
  const kill = ({ process }: { process: { kill(signal: 'SIGKILL'): void } }) => process.kill('SIGKILL')
  cluster.on('online', kill)
  t.teardown(() => cluster.off('online', kill))
  for (const worker of Object.values(cluster.workers ?? {})) if (worker) kill(worker)
  t.match(await exited, { code: 137 })
  t.match(stderr(), /a worker ended again and again/)
  t.strictSame(Object.keys(cluster.workers ?? {}), [])
})

t.test('a worker that hangs does not keep the server', { skip: isWindows && 'nothing stops there' }, async (t) => {
  const { signal, exited, nextLine, stderr } = startRun([
    'serve',
    '--data',
    t.testdir(),
    '--port',
    '0',
    '--drain-timeout',
    '1s',
    ...quiet,
  ])
  await nextLine()
  const [first] = Object.values(cluster.workers ?? {})
  first?.process.kill('SIGSTOP')
  signal('SIGTERM')
  t.match(await exited, { code: 137 })
  t.match(stderr(), /a worker did not drain in time: it is killed/)
  t.strictSame(Object.keys(cluster.workers ?? {}), [])
})

t.test('an address in use ends the server, with one message', async (t) => {
  const data = t.testdir()
  const taken = await serveHere(t, ['--data', join(data, 'a'), '--log-level', 'error'])
  const { exited } = startRun(['serve', '--data', join(data, 'b'), '--port', String(taken.port), ...quiet])
  t.match(await exited, { code: 6, stdout: '', stderr: /^ingest: port \d+ on 127\.0\.0\.1 is in use: .*\n$/ })
  t.strictSame(Object.keys(cluster.workers ?? {}), [])
})

t.test('signals', { skip: isWindows && 'there are none' }, async (t) => {
  t.test('SIGHUP reloads every worker, and a second SIGINT ends all at once', async (t) => {
    const server = await startServe(t, ['--data', t.testdir(), '--workers', '2'])
    server.signal('SIGHUP')
    const reloaded = () => server.log().filter(({ msg }) => msg === 'settings reloaded')
    while (reloaded().length < 3) await new Promise(setImmediate)
    t.strictSame(new Set(reloaded().map(({ worker }) => worker)), new Set([undefined, 1, 2]))
    // a request that does not end
    const socket = connect(server.port, '127.0.0.1')
    t.teardown(() => socket.destroy())
    socket.on('error', () => {})
    socket.write('POST /v1/events/batch HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n')
    await once(socket, 'data')
    server.signal('SIGINT')
    while (!server.log().some(({ msg }) => msg === 'draining')) await new Promise(setImmediate)
    server.signal('SIGINT')
    // its streams are those of the workers too
    t.match(await server.exited, { code: 130 })
  })

  t.test('workers end with the primary', async (t) => {
    const server = await startServe(t, ['--data', t.testdir(), '--workers', '2'])
    server.signal('SIGKILL')
    t.match(await server.exited, { signal: 'SIGKILL' })
  })
})
