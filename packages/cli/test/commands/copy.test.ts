import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { createIngest, type Store } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import t from 'tap'
import {
  allContentsOf,
  alpha,
  beta,
  createClock,
  fillStore,
  storeEvents,
} from '../../../core/test/copy/filled-store.ts'
import { ended, spawnIngest, startIngest, startServe } from '../ingest-process.ts'
import { ingest, isWrongUsage, startRun } from '../run-ingest.ts'
import { createKey, exportedWithoutCursors, idsOf, projectId, send, submitIds, withStore } from '../served.ts'

const path = t.testdir()
const source = join(path, 'source')

async function withDirectory<T>(data: string, use: (store: Store) => Promise<T>): Promise<T> {
  const store = await openLmdbStore(data)
  return use(store).finally(store.close)
}

const key = await withDirectory(source, fillStore)

t.test('a directory is copied to another one, byte by byte', async (t) => {
  const target = join(path, 'target')
  const { code, stdout, stderr } = await ingest(['copy', '--from', source, '--to', target])
  t.match({ code, stderr }, { code: 0, stderr: /copying .* of 125 events\n/ })
  t.match(stdout, /^PROJECT .* KEYS\nalpha +65 +65 +3 +2\nbeta .*\nonly-a-key .*\ncopied 125 events of 3 projects in /)
  const contents = await withDirectory(source, allContentsOf)
  t.strictSame(await withDirectory(target, allContentsOf), contents)
  await withDirectory(target, async (store) => {
    const { authenticate } = createIngest({ store })
    t.ok(await authenticate({ projectId: alpha, key, scope: 'read' }))
  })
  const again = JSON.parse((await ingest(['copy', '--from', source, '--to', target, '--json'])).stdout)
  t.match(again.projects[1], { projectId: beta, events: 60, copied: 0 })

  const env = { INGEST_FROM: source, INGEST_TO: join(path, 'one') }
  const one = await ingest(['copy', '--project', beta, '--json', '--quiet'], { env })
  t.strictSame({ code: one.code, stderr: one.stderr }, { code: 0, stderr: '' })
  const { durationMs, projects, ...rest } = JSON.parse(one.stdout)
  t.strictSame(rest, { ok: true, from: source, to: env.INGEST_TO })
  t.match([durationMs, projects], [Number, [{ projectId: beta, copied: 60 }]])
  t.equal(projects.length, 1)
})

t.test('a target with newer events: exit code 3, and nothing is written', async (t) => {
  const target = join(path, 'newer')
  await withDirectory(target, (store) => storeEvents(store, 'own', 1, createClock(1_750_000_000_000)))
  const before = await withDirectory(target, allContentsOf)
  const { code, stdout, stderr } = await ingest(['copy', '--from', source, '--to', target, '--json'])
  t.match({ code, stderr }, { code: 3, stderr: /^ingest: The project \w+ has events of 2023-11-14T.* all projects of/ })
  t.match(JSON.parse(stdout), { ok: false, error: { code: 'precondition-failed', retryable: false } })
  t.strictSame(await withDirectory(target, allContentsOf), before)
})

t.test('projects that begin between batches of others keep their times in a directory', async (t) => {
  const [from, to] = [join(path, 'many'), join(path, 'many-copied')]
  for (const [first, end] of [
    [0, 50],
    [50, 200],
  ] as const) {
    await withDirectory(from, async (store) => {
      const { project } = createIngest({ store, now: createClock(1_700_000_000_000 + 1000 * first) })
      for (let i = first; i < end; i++) {
        const id = `p-${i % (2 + Math.floor(i / 7))}`
        await project(id).submitBatch({ events: [{ projectId: id, eventId: `e-${i}` }] })
      }
    })
    t.match(await ingest(['copy', '--from', from, '--to', to]), { code: 0 })
  }
  t.strictSame(await withDirectory(to, allContentsOf), await withDirectory(from, allContentsOf))
})

t.test('an empty directory is not a store', async (t) => {
  const from = join(path, 'empty')
  mkdirSync(from)
  await isWrongUsage(t, ['copy', '--from', from, '--to', join(path, 'made')], /There is no store in/)
  t.strictSame([readdirSync(from), readdirSync(path).includes('made')], [[], false])
})

t.test('a copy that was interrupted or killed is continued', async (t) => {
  const eventCount = 25_000
  const large = join(path, 'large')
  await withStore(large, (project) => submitIds(project, idsOf('e', eventCount), 'x'.repeat(2000)))
  const target = join(path, 'large-copy')
  const args = ['copy', '--from', large, '--to', target]
  const interrupted = startRun(args)
  while (!(await interrupted.nextError()).includes('copying'));
  interrupted.signal('SIGINT')
  const advice = /SIGINT: the copy is incomplete; run it again to continue\n$/
  t.match(await interrupted.exited, { code: 130, stderr: advice })

  const killed = startIngest(args)
  const end = ended(killed)
  killed.stderr.on('data', (text) => String(text).includes('copying') && killed.kill('SIGKILL'))
  t.match(await end, { signal: 'SIGKILL' })
  const begun = await withStore(target, async (project) => (await project.getStats()).events)
  t.ok(begun > 0 && begun < eventCount, `${begun} events were copied`)
  const { code, stdout } = await spawnIngest([...args, '--json'])
  t.equal(code, 0)
  t.match(JSON.parse(stdout).projects, [{ projectId, events: eventCount, copied: eventCount - begun }])
  const [was, is] = await Promise.all(
    [large, target].map((store) => exportedWithoutCursors(['--store', store], projectId)),
  )
  t.ok(is === was, 'the exported lines are equal')
})

const data = join(path, 'data')
const dataKey = await createKey(data)
const events = ['a', 'b', 'c'].map((eventId, i) => ({
  projectId,
  eventId,
  playerId: i === 2 ? '8' : 7,
  buildId: eventId,
}))
const env = { INGEST_STORE: data, INGEST_PROJECT_ID: projectId }

/** Runs a command with `--json`. */
async function json(args: readonly string[], settings: { env: Record<string, string> }) {
  return JSON.parse((await ingest([...args, '--json'], settings)).stdout)
}

t.test('a player is erased beside a server, whose find says so', async (t) => {
  const server = await startServe(t, ['--store', data])
  await send({ ...server, key: dataKey }, JSON.stringify({ events }))
  const counted = await json(['erase', '--where', '/playerId="8"', '--dry-run'], { env })
  t.match(counted, { ok: true, dryRun: true, projects: [{ projectId, events: 1 }] })
  t.equal((await ingest(['find', 'c'], { env })).code, 0)
  const { code, stdout } = await ingest(['erase', '--player', '7', '--yes'], { env })
  t.equal(code, 0)
  t.match(stdout, /ERASED[\s\S]*game-1 +2/)
  const remote = { INGEST_URL: server.url, INGEST_PROJECT_ID: projectId, INGEST_KEY: dataKey }
  for (const from of [env, remote]) {
    t.match((await ingest(['find', 'a'], { env: from })).stdout, /\nerased /)
    t.match(await json(['find', 'a'], { env: from }), { ok: true, erased: 'a' })
    t.match((await ingest(['export'], { env: from })).stdout, /^[^\n]*"eventId":"c"[^\n]*\n$/)
  }
  const old = await ingest(['erase', '--older-than', '90d', '--dry-run'], { env: { INGEST_STORE: data } })
  t.match(old.stdout, /WOULD ERASE[\s\S]*game-1 +0/, 'of all projects')
})

t.test('erase says what it compared, and finds an id as a number and as a string', async (t) => {
  const own = join(t.testdir(), 'data')
  const ids = ['7', '"7"', 'true', '"true"', '1e1']
  const events = ids.map((id, i) => JSON.parse(`{"projectId":"${projectId}","eventId":"e-${i}","user":{"id":${id}}}`))
  await withStore(own, (project) => project.submitBatch({ events }))
  const find = (where: string) => json(['erase', '--where', where, '--dry-run'], { env: { ...env, INGEST_STORE: own } })
  for (const [where, compared, count] of [
    ['/user/id=7', '/user/id is 7 or "7"', 2],
    ['/user/id="7"', '/user/id is 7 or "7"', 2],
    ['/user/id=true', '/user/id is true', 1],
    ['/user/id="true"', '/user/id is "true"', 1],
    ['/user/id=90071992547409931', '/user/id is 90071992547409931 or "90071992547409931"', 0],
  ] as const) {
    t.match(await find(where), { compared, projects: [{ events: count }] }, where)
  }
  const { stdout } = await ingest(['erase', '--where', '/user/id=10', '--yes'], { env: { ...env, INGEST_STORE: own } })
  t.match(stdout, /^compared: \/user\/id is 10 or "10"\n[\s\S]*game-1 +1 /)
})

t.test('erase asks for confirmation on a terminal', async (t) => {
  for (const [typed, code] of [
    [['n\n'], 3],
    [[], 3],
    [['y\n'], 0],
  ] as const) {
    const own = join(t.testdir(), 'data')
    await withStore(own, (project) => submitIds(project, ['a', 'b']))
    const args = ['erase', '--where', '/eventId="a"', '--store', own, '--project', projectId]
    const stdin = Object.assign(Readable.from(typed), { isTTY: true })
    const asked = /Erase 1 event of game-1, where \/eventId is "a"\? This cannot be undone\. \[y\/N\] /
    t.match(await ingest(args, { stdin, isTerminal: true }), { code, stderr: asked }, `typed ${typed}`)
    const found = await ingest(['find', 'a', '--store', own, '--project', projectId])
    t.match(found.stdout, code === 0 ? /\nerased / : /"eventId":"a"/)
  }
})

t.test('a copy carries erased ids and the builds that they froze, and later erasures', async (t) => {
  const copy = join(path, 'copy-of-erased')
  const into = { INGEST_STORE: copy, INGEST_PROJECT_ID: projectId }
  t.match(await ingest(['copy', '--from', data, '--to', copy]), { code: 0 })
  t.match((await ingest(['find', 'a'], { env: into })).stdout, /\nerased /)
  t.equal((await json(['stats', '--builds'], { env: into })).builds.length, 3)
  const later = ['erase', '--where', '/eventId="c"', '--yes', '--json']
  t.match(await ingest(later, { env }), { code: 0, stdout: /"events":1/ })
  t.match(await ingest(later, { env }), { code: 0, stdout: /"events":0/ }, 'erasing again finds nothing')
  t.match(await ingest(['copy', '--from', data, '--to', copy]), { code: 0 })
  t.match((await ingest(['find', 'c'], { env: into })).stdout, /\nerased /)
})

t.test('a project without a key and events is known', async (t) => {
  const own = join(path, 'erased')
  await withStore(own, (project) => submitIds(project, ['a']))
  const args = ['erase', '--where', '/eventId="a"', '--yes', '--json', '--store', own, '--project', projectId]
  for (const count of [1, 0]) t.match(await ingest(args), { code: 0, stdout: `"events":${count}` })
})
