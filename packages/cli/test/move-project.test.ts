import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { createClient } from '@ingest/client'
import { IngestError, type StoredEvent } from '@ingest/core'
import { openPostgresStore } from '@ingest/postgres'
import t, { type Test } from 'tap'
import { freePort, startPostgres, whyNoServer } from '../../postgres/test/postgres-server.ts'
import { spawnIngest, startServe } from './ingest-process.ts'

const proxy = fileURLToPath(new URL('../../../examples/proxy/', import.meta.url))
const noHaproxy = spawnSync('haproxy', ['-v']).error && 'haproxy is not installed: apt-get install haproxy'
const senders = 4

t.test(
  'a project that is moved under load loses and doubles nothing',
  { skip: noHaproxy || whyNoServer() },
  async (t) => {
    const [one, two] = await Promise.all([startPostgres({ hasOwnIdentifier: true }), startPostgres()])
    const servers = await Promise.all(
      [one, one, two, two].map(({ url }) => startServe(t, ['--store', url, '--rate-limit', 'off'])),
    )
    const key = await createKey(one.url, 'demo')
    const stayingKey = await createKey(one.url, 'staying')
    const { url, socket, map } = await startHaproxy(
      t,
      servers.map((server) => server.url),
    )
    const moved = createClient({ url, projectId: 'demo', key, retries: 0 })
    const staying = createClient({ url, projectId: 'staying', key: stayingKey, retries: 0 })
    t.teardown(() => Promise.all([moved.close(), staying.close()]))

    /** The ids that were acknowledged. */
    const acknowledged = new Set<string>()
    let isMoved = false
    let refusals = 0
    let stays = 0
    async function send(sender: number): Promise<void> {
      for (let batch = 0; !isMoved || batch % 10 !== 0; batch++) {
        const events = Array.from({ length: 5 }, (_, i) => ({
          projectId: 'demo',
          eventId: `${sender}-${batch}-${i}`,
          type: 'test',
        }))
        for (;;) {
          try {
            await moved.submitBatch({ events })
            for (const { eventId } of events) acknowledged.add(eventId)
            break
          } catch (error) {
            if (!(error instanceof IngestError && error.status === 503)) throw error
            refusals++
            await sleep(50)
          }
        }
      }
    }
    async function stay(): Promise<void> {
      for (; !isMoved; stays++)
        await staying.submitBatch({ events: [{ projectId: 'staying', eventId: `${stays}`, type: 'test' }] })
    }
    const sending = Promise.all([...Array.from({ length: senders }, (_, i) => send(i)), stay()])
    sending.catch(() => {})
    while (acknowledged.size < 200) await sleep(10)

    const args = ['--project', 'demo', '--from-store', one.url, '--to-store', two.url, '--socket', socket, '--map', map]
    const { stdout } = await promisify(execFile)(process.execPath, [join(proxy, 'move-project.js'), ...args])
    t.match(stdout, /demo → two\nclosed for \d+ ms\n$/)
    const atMove = acknowledged.size
    while (acknowledged.size < atMove + 100) await sleep(10)
    isMoved = true
    await sending

    t.ok(refusals > 0, 'the project was closed for a moment')
    const ids = await storedIds(two.url, 'demo')
    t.equal(new Set(ids).size, ids.length, 'no event is stored twice')
    t.strictSame([...ids].sort(), [...acknowledged].sort(), 'what was acknowledged is stored, and nothing else')
    t.ok((await storedIds(one.url, 'demo')).length < ids.length, 'the old cluster got no event after the move')
    t.equal((await storedIds(one.url, 'staying')).length, stays, 'the other project stayed, and was never refused')
    t.equal(readFileSync(map, 'utf8'), 'demo two\n')

    const again = promisify(execFile)(process.execPath, [join(proxy, 'move-project.js'), ...args])
    await t.rejects(again, /demo is in two, not in one/, 'a project is not moved twice')
    t.equal(readFileSync(map, 'utf8'), 'demo two\n')

    const [first] = await readAll(createClient({ url: servers[0]?.url ?? '', projectId: 'demo', key }))
    await t.rejects(readAll(moved, first?.cursor), { code: 'invalid-cursor' }, 'cursors of the old cluster are refused')
  },
)

t.test(
  'a reader that waits for events does not keep its project from being moved',
  { skip: noHaproxy || whyNoServer() },
  async (t) => {
    const [one, two] = await Promise.all([startPostgres({ hasOwnIdentifier: true }), startPostgres()])
    const servers = await Promise.all([one, one, two, two].map(({ url }) => startServe(t, ['--store', url])))
    const key = await createKey(one.url, 'demo')
    const { url, socket, map } = await startHaproxy(
      t,
      servers.map((server) => server.url),
    )
    const client = createClient({ url, projectId: 'demo', key })
    t.teardown(() => client.close())
    const args = ['--project', 'demo', '--from-store', one.url, '--to-store', two.url, '--socket', socket, '--map', map]
    const held = await holdPoll(url, key, socket)
    const moving = spawn(process.execPath, [join(proxy, 'move-project.js'), ...args])
    const exit = once(moving, 'exit')
    let polled: Promise<Response> | undefined
    for await (const line of createInterface(moving.stdout)) {
      if (!/→ one-before-move/.test(line)) continue
      const headers = { 'X-Project-Id': 'demo', 'X-Ingestion-Key': key }
      polled = fetch(`${url}/v1/events?after=end&wait=60&type=none`, { headers })
      await untilInFlight(socket, 'one-before-move')
      await held.end()
    }
    t.strictSame(await exit, [0, null])
    t.equal((await polled)?.status, 200)
    t.equal(readFileSync(map, 'utf8'), 'demo two\n')
  },
)

t.test(
  'a move that fails or is stopped leaves the project where it is',
  { skip: noHaproxy || whyNoServer() },
  async (t) => {
    const one = await startPostgres()
    const { url } = await startServe(t, ['--store', one.url])
    const key = await createKey(one.url, 'demo')
    const { socket, map, ...haproxy } = await startHaproxy(t, [url, url, url, url])
    const client = createClient({ url: haproxy.url, projectId: 'demo', key })
    const isOpen = async (eventId: string) => {
      const result = await client.submitBatch({ events: [{ projectId: 'demo', eventId, type: 'test' }] })
      t.match(result, { accepted: 1 }, eventId)
      t.equal(readFileSync(map, 'utf8').replace(/^demo one\n$/, ''), '')
    }
    await isOpen('before')
    const start = (to: string, store: string) => {
      const args = ['--project', 'demo', '--from-store', one.url, '--to', to, '--to-store', store]
      return spawn(process.execPath, [join(proxy, 'move-project.js'), ...args, '--socket', socket, '--map', map])
    }

    const unknown = start('three', one.url)
    t.match(await text(unknown.stderr), /HAProxy has no backend three/)
    await isOpen('after an unknown backend')

    const two = await startPostgres()
    mkdirSync(`${map}.new`)
    const unwritable = start('two', two.url)
    const [routed, reason] = await Promise.all([text(unwritable.stdout), text(unwritable.stderr)])
    t.match(reason, /EISDIR.*projects\.map\.new/)
    t.equal(routed, '', 'nothing was copied or routed')
    rmdirSync(`${map}.new`)
    await isOpen('after a map that cannot be written')

    /** Moves the project while a long poll keeps it closed; resolves with the error of the move. */
    async function moveDuringPoll(onClosed: (move: ChildProcess) => void): Promise<string> {
      const held = await holdPoll(haproxy.url, key, socket)
      const move = start('two', two.url)
      const exit = once(move, 'exit')
      const error = text(move.stderr)
      const read = new AbortController()
      for await (const line of createInterface(move.stdout)) {
        if (/→ one-before-move/.test(line)) {
          const headers = { 'X-Project-Id': 'demo', 'X-Ingestion-Key': key }
          // clusters.cfg shortens a `wait` only if its name is not encoded
          fetch(`${haproxy.url}/v1/events?after=end&w%61it=60&type=none`, { headers, signal: read.signal }).catch(
            () => {},
          )
          await untilInFlight(socket, 'one-before-move')
          await held.end()
        }
        if (/→ moving/.test(line)) onClosed(move)
      }
      t.strictSame(await exit, [1, null])
      read.abort()
      return error
    }

    t.match(await moveDuringPoll((move) => move.kill('SIGINT')), /demo stays in one: Error: SIGINT/)
    await isOpen('after Ctrl-C')

    t.match(await moveDuringPoll(() => {}), /demo stays in one: Error: it was closed for 30 seconds/)
    await isOpen('after 30 seconds')

    await two.stop()
    const failing = start('two', two.url)
    t.match(await text(failing.stderr), /^demo stays in one: /)
    await isOpen('after a failed copy')
    await client.close()
  },
)

async function createKey(store: string, projectId: string): Promise<string> {
  return (await spawnIngest(['keys', 'create', '--store', store, '--project', projectId])).stdout.trim()
}

async function storedIds(url: string, projectId: string): Promise<string[]> {
  const store = await openPostgresStore(url)
  const ids: string[] = []
  for await (const page of store.read(projectId))
    for (const { bytes } of page) ids.push(JSON.parse(Buffer.from(bytes).toString()).eventId)
  await store.close()
  return ids
}

async function readAll(client: ReturnType<typeof createClient>, after?: string): Promise<StoredEvent[]> {
  const events = []
  for await (const event of client.readEvents(after === undefined ? {} : { after })) events.push(event)
  return events
}

/** Starts a long poll, for which a move waits until `end` stores the event that the poll waits for. */
async function holdPoll(url: string, key: string, socket: string): Promise<{ end(): Promise<void> }> {
  const headers = { 'X-Project-Id': 'demo', 'X-Ingestion-Key': key }
  const poll = fetch(`${url}/v1/events?after=end&wait=60&type=held`, { headers })
  await untilInFlight(socket, 'one')
  return {
    async end() {
      const client = createClient({ url, projectId: 'demo', key })
      await client.submitBatch({ events: [{ projectId: 'demo', eventId: randomUUID(), type: 'held' }] })
      await (await poll).text()
      await client.close()
    },
  }
}

/** Resolves when HAProxy has a request in flight to a backend. */
async function untilInFlight(socket: string, backend: string): Promise<void> {
  for (;;) {
    const connection = connect(socket)
    connection.end('show sess\n')
    if ((await text(connection)).includes(` be=${backend} `)) return
    await sleep(20)
  }
}

/** Starts HAProxy with clusters.cfg, on other ports and paths. */
async function startHaproxy(t: Test, urls: readonly string[]) {
  // the path of a socket is limited to about 100 bytes
  const directory = mkdtempSync(join(tmpdir(), 'ingest-haproxy-'))
  t.teardown(() => rmSync(directory, { recursive: true }))
  const [socket, map] = [join(directory, 'admin.sock'), join(directory, 'projects.map')]
  const port = await freePort()
  const settings = readFileSync(join(proxy, 'clusters.cfg'), 'utf8')
    .replaceAll('/run/haproxy/admin.sock', socket)
    .replaceAll('/etc/haproxy/projects.map', map)
    .replace('127.0.0.1:8787', `127.0.0.1:${port}`)
    .replaceAll(/127\.0\.0\.1:87(8[89]|9[01])/g, (_, last) => new URL(urls[Number(last) - 88] ?? '').host)
  writeFileSync(map, '')
  writeFileSync(join(directory, 'haproxy.cfg'), settings)
  const child = spawn('haproxy', ['-f', join(directory, 'haproxy.cfg'), '-db'], { stdio: 'ignore' })
  const exit = once(child, 'exit')
  t.teardown(() => {
    child.kill('SIGKILL')
    return exit
  })
  const url = `http://127.0.0.1:${port}`
  while ((await fetch(`${url}/readyz`).catch(() => undefined))?.status !== 200) {
    if (child.exitCode !== null) throw new Error(`HAProxy ended with ${child.exitCode}`)
    await sleep(50)
  }
  return { url, socket, map }
}
