import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { DuckDBInstance } from '@duckdb/node-api'
import { createIngest, openMemoryStore } from '@ingest/core'
import { createHandler } from '@ingest/server'
import pg from 'pg'
import t, { type Test } from 'tap'
import { createDatabase, noPostgres } from '../../packages/postgres/test/database.ts'

/** `INGEST_KILLS=20` for more. */
const kills = Number(process.env.INGEST_KILLS ?? 3)
/** Two batches of a sink or more. */
const eventsPerKill = 12_000
/** A kill comes up to this long after the first request of a sink or a commit: about the time of a batch. */
const killMsMax = 200

const sinks = fileURLToPath(new URL('../../examples/sinks/', import.meta.url))

/** Where a sink writes to. */
interface Target {
  /** Argument of the sink. */
  argument: string
  /** The ids of the events that it holds, while no sink is running. */
  readIds(): Promise<string[]>
}

const targets: { name: string; skip: string | false; open(t: Test): Promise<Target> }[] = [
  {
    name: 'duckdb',
    skip: false,
    async open(t) {
      const file = join(t.testdir(), 'events.duckdb')
      return {
        argument: file,
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
      const argument = await createDatabase()
      const db = new pg.Client(argument)
      await db.connect()
      t.teardown(() => db.end())
      return {
        argument,
        async readIds() {
          const { rows } = await db.query('SELECT id FROM events')
          return rows.map(({ id }) => id)
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

function startSink(t: Test, name: string, argument: string, env: Record<string, string>) {
  const child = spawn(process.execPath, [join(sinks, `${name}.js`), argument], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...env, _TAPJS_PROCESSINFO_COVERAGE_: '0' },
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
    const { argument, readIds } = await open(t)
    const { server, project, ids, env, submit } = await serveProject(t)
    for (let i = 0; i < kills; i++) {
      const sink = startSink(t, name, argument, env)
      const requested = once(server, 'request')
      const submitting = submit(eventsPerKill)
      await Promise.race([Math.random() < 0.5 ? requested : sink.lines.next(), sink.exit])
      await sleep(Math.random() * killMsMax)
      t.strictSame(await sink.kill(), [null, 'SIGKILL'])
      await submitting
    }
    const last = startSink(t, name, argument, env)
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
