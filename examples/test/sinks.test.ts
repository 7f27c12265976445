import { execFileSync, spawn } from 'node:child_process'
import { type EventEmitter, once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'
// @ts-expect-error: it has no types
import S3rver from '@20minutes/s3rver'
import { DuckDBInstance } from '@duckdb/node-api'
import { createIngest, openMemoryStore } from '@ingest/core'
import { createHandler } from '@ingest/server'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { createClient as createRedis } from '@redis/client'
import { AwsClient } from 'aws4fetch'
import pg from 'pg'
import t, { type Test } from 'tap'
import { createDatabase, noPostgres } from '../../packages/postgres/test/database.ts'

/** `INGEST_KILLS=20` kills more often. */
const kills = Number(process.env.INGEST_KILLS ?? 3)
/** Enough for two batches of a sink or more. */
const eventsPerKill = 12_000
/** The longest time from a sink's first read or write to its kill: about the time of a batch; most kills come earlier. */
const killMsMax = 200

const sinks = fileURLToPath(new URL('../../examples/sinks/', import.meta.url))

/** The system that a sink writes to. */
interface Target {
  /** Arguments of the sink. */
  args: string[]
  /** Emits `request` when the sink writes; by default, its next line shows that it has written. */
  requests?: EventEmitter
  /** The ids of the events that it holds, while no sink is running. */
  readIds(): Promise<string[]>
}

/** Why a program of the system cannot be started, or false. */
function whyMissing(program: string): string | false {
  try {
    execFileSync(program, ['--version'], { stdio: 'ignore' })
    return false
  } catch {
    return `${program} is not installed: apt-get install ${program}`
  }
}

/** Starts a server of the system for one test; resolves when it prints that it is ready. */
async function startServer(t: Test, program: string, args: string[], ready: RegExp): Promise<void> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const exit = once(child, 'exit')
  t.teardown(() => {
    child.kill('SIGKILL')
    return exit
  })
  await new Promise<void>((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr])
      createInterface(stream).on('line', (line) => ready.test(line) && resolve())
    child.once('exit', (code) => reject(new Error(`${program} ended with ${code}`)))
  })
}

async function freePort(): Promise<number> {
  const server = createTcpServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}

const idOf = (event: string | Uint8Array): string => JSON.parse(Buffer.from(event).toString()).eventId

const s3Keys = { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' }
const s3Env = { AWS_ACCESS_KEY_ID: s3Keys.accessKeyId, AWS_SECRET_ACCESS_KEY: s3Keys.secretAccessKey }

const targets: { name: string; skip: string | false; open(t: Test): Promise<Target> }[] = [
  {
    name: 'duckdb',
    skip: false,
    async open(t) {
      const file = join(t.testdir(), 'events.duckdb')
      return {
        args: [file],
        async readIds() {
          const instance = await DuckDBInstance.create(file)
          const db = await instance.connect()
          const rows = await db.runAndReadAll("SELECT event->>'eventId' FROM events")
          db.closeSync()
          instance.closeSync()
          return rows.getRows().map(([id]) => String(id))
        },
      }
    },
  },
  {
    name: 'postgres',
    skip: noPostgres,
    async open(t) {
      const url = await createDatabase()
      const db = new pg.Client(url)
      await db.connect()
      t.teardown(() => db.end())
      return {
        args: [url],
        async readIds() {
          const { rows } = await db.query('SELECT id FROM events')
          return rows.map(({ id }) => id)
        },
      }
    },
  },
  {
    name: 'redis',
    skip: whyMissing('redis-server'),
    async open(t) {
      const port = await freePort()
      const settings = ['--port', String(port), '--dir', t.testdir(), '--appendonly', 'yes']
      await startServer(t, 'redis-server', settings, /Ready to accept connections/)
      const url = `redis://127.0.0.1:${port}`
      const redis = await createRedis({ url }).connect()
      t.teardown(() => redis.destroy())
      return {
        args: [url],
        async readIds() {
          const entries = await redis.xRange('events', '-', '+')
          return (entries ?? []).map((entry) => idOf(entry?.message.event ?? ''))
        },
      }
    },
  },
  {
    name: 'nats',
    skip: whyMissing('nats-server'),
    async open(t) {
      const port = await freePort()
      const settings = ['-a', '127.0.0.1', '-p', String(port), '-js', '-sd', t.testdir()]
      await startServer(t, 'nats-server', settings, /Server is ready/)
      const url = `nats://127.0.0.1:${port}`
      const nats = await connect({ servers: url })
      t.teardown(() => nats.close())
      return {
        args: [url],
        async readIds() {
          const { state } = await (await jetstreamManager(nats)).streams.info('EVENTS')
          const ids: string[] = []
          const messages = await (await jetstream(nats).consumers.get('EVENTS')).consume()
          for await (const message of messages) {
            ids.push(idOf(message.data))
            if (message.seq === state.last_seq) break
          }
          return ids
        },
      }
    },
  },
  {
    name: 's3',
    skip: false,
    async open(t) {
      const directory = t.testdir({ files: {}, bucket: {} })
      const configureBuckets = [{ name: 'games', configs: [] }]
      const options = { port: 0, address: '127.0.0.1', silent: true, directory: join(directory, 'bucket') }
      const s3rver = new S3rver({ ...options, configureBuckets })
      await s3rver.configureBuckets()
      const respond = s3rver.callback()
      // slow, so that kills come before the response too
      const server = createServer(async (req, res) => {
        await sleep(Math.random() * 20)
        respond(req, res)
      }).listen(0, '127.0.0.1')
      await once(server, 'listening')
      t.teardown(() => server.closeAllConnections() ?? server.close())
      const bucket = `http://127.0.0.1:${(server.address() as AddressInfo).port}/games`
      const s3 = new AwsClient({ ...s3Keys, service: 's3' })
      return {
        args: [join(directory, 'files'), `${bucket}/demo`],
        requests: server,
        async readIds() {
          const listing = await (await s3.fetch(`${bucket}?list-type=2`)).text()
          const files = await Promise.all(
            Array.from(listing.matchAll(/<Key>(.*?)<\/Key>/g), async ([, key]) =>
              gunzipSync(await (await s3.fetch(`${bucket}/${key}`)).arrayBuffer()).toString(),
            ),
          )
          const lines = files.flatMap((text) => text.trimEnd().split('\n'))
          return lines.map((line) => JSON.parse(line).event.eventId)
        },
      }
    },
  },
]

/** A served project, to which `submit` adds events. */
async function serveProject(t: Test) {
  const ingest = createIngest({ store: openMemoryStore() })
  const server = createServer(createHandler(ingest)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    server.closeAllConnections()
    server.close()
    await ingest.close()
  })
  const project = ingest.project('demo')
  const { key } = await ingest.keys.create('demo', { scopes: ['read'] })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const ids: string[] = []
  return {
    server,
    project,
    ids,
    env: { INGEST_URL: url, INGEST_PROJECT_ID: 'demo', INGEST_KEY: key },
    async submit(count: number) {
      for (const end = ids.length + count; ids.length < end; ) {
        const events = Array.from({ length: 100 }, (_, i) => ({
          ...{ projectId: 'demo', eventId: `e-${ids.length + i}`, type: 'kill' },
          text: 'é "\\" \0 \ud83d\ude00',
        }))
        await project.submitBatch({ events })
        ids.push(...events.map(({ eventId }) => eventId))
      }
    },
  }
}

function startSink(t: Test, name: string, args: string[], env: Record<string, string>) {
  const child = spawn(process.execPath, [join(sinks, `${name}.js`), ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...s3Env, ...env, _TAPJS_PROCESSINFO_COVERAGE_: '0' },
  })
  const exit = once(child, 'exit')
  const kill = () => {
    child.kill('SIGKILL')
    return exit
  }
  t.teardown(kill)
  return { exit, kill, lines: createInterface(child.stdout)[Symbol.asyncIterator]() }
}

for (const { name, skip, open } of targets) {
  t.test(`${name}: a sink that is killed ${kills} times loses and doubles nothing`, { skip }, async (t) => {
    const { args, requests, readIds } = await open(t)
    const { server, project, ids, env, submit } = await serveProject(t)
    for (let i = 0; i < kills; i++) {
      const sink = startSink(t, name, args, env)
      const reads = once(server, 'request')
      const submitting = submit(eventsPerKill)
      const writes = requests ? once(requests, 'request') : sink.lines.next()
      await Promise.race([Math.random() < 0.5 ? reads : writes, sink.exit])
      await sleep(Math.random() ** 2 * killMsMax)
      const [code] = await sink.kill()
      // a job may have ended before the kill
      t.ok(code === null || (code === 0 && name === 's3'), `it ended with ${code}`)
      await submitting
    }
    const last = startSink(t, name, args, env)
    const end = await project.lastCursor()
    for (let line = ''; !line.endsWith(end); ) {
      const { done, value } = await last.lines.next()
      if (done) return t.fail('the last sink ended')
      line = value
    }
    await last.kill()
    const found = await readIds()
    const distinct = new Set(found)
    t.equal(found.length - distinct.size, 0, 'doubled')
    t.equal(ids.filter((id) => !distinct.has(id)).length, 0, 'lost')
    t.equal(distinct.size, ids.length)
  })
}
