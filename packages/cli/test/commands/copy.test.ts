import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createIngest, type Store } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import t from 'tap'
import { allContentsOf, alpha, beta, createClock, fillStore, storeEvents } from '../copy/filled-store.ts'
import { ended, spawnIngest, startIngest } from '../ingest-process.ts'
import { ingest, isWrongUsage, startRun } from '../run-ingest.ts'
import { exportedWithoutCursors, idsOf, projectId, submitIds, unknownProject, withStore } from '../served.ts'

const path = t.testdir()
const source = join(path, 'source')

async function withDirectory<T>(data: string, use: (store: Store) => Promise<T>): Promise<T> {
  const store = await openLmdbStore(data)
  try {
    return await use(store)
  } finally {
    await store.close()
  }
}

const key = await withDirectory(source, fillStore)

t.test('a directory is copied to another one, byte by byte', async (t) => {
  const target = join(path, 'target')
  const { code, stdout, stderr } = await ingest(['copy', '--from', source, '--to', target])
  t.match({ code, stderr }, { code: 0, stderr: /copying .* of 125 events\n/ })
  t.match(
    stdout,
    /^PROJECT .* DIGEST\nalpha +65 +65 +5 +4 .* 2 +sha256:\w{64}\nbeta .*\nonly-a-key .*\ncopied 125 events of 3 projects, and verified all, in /,
  )
  const contents = await withDirectory(source, allContentsOf)
  t.strictSame(await withDirectory(target, allContentsOf), contents)
  for (const project of [alpha, beta]) {
    const exported = await exportedWithoutCursors(['--store', source], project)
    t.equal(await exportedWithoutCursors(['--store', target], project), exported)
  }
  await withDirectory(target, async (store) => {
    const { authenticate } = createIngest({ store })
    t.equal(await authenticate({ projectId: alpha, key, scope: 'read' }), true)
  })

  await t.test('the digest is that of the exported lines', async (t) => {
    const { projects } = JSON.parse((await ingest(['copy', '--from', source, '--to', target, '--json'])).stdout)
    t.match(projects[1], { projectId: beta, events: 60, copied: 0 })
    const hash = createHash('sha256').update(await exportedWithoutCursors(['--store', target], beta))
    t.equal(projects[1].digest, `sha256:${hash.digest('hex')}`)
  })

  await t.test('--json, --quiet and --project', async (t) => {
    const to = join(path, 'one')
    const args = ['copy', '--from', source, '--to', to, '--project', beta, '--json', '--quiet']
    const { code, stdout, stderr } = await ingest(args)
    t.strictSame({ code, stderr }, { code: 0, stderr: '' })
    t.match(JSON.parse(stdout), {
      ok: true,
      from: source,
      to,
      projects: [{ projectId: beta, copied: 60 }],
      durationMs: Number,
    })
    t.strictSame(JSON.parse(stdout).projects.length, 1)
    t.match(await ingest(args.slice(0, -2)), { code: 0, stdout: /^PROJECT/ })
  })

  await t.test('an unknown project: exit code 3, and no target', async (t) => {
    const to = join(path, 'unknown')
    const env = { INGEST_FROM: source, INGEST_TO: to }
    const failure = await ingest(['copy', '--project', 'gmae-1'], { env })
    t.strictSame(failure, { code: 3, signal: null, stdout: '', stderr: unknownProject })
    const { stdout } = await ingest(['copy', '--project', 'gmae-1', '--json'], { env })
    t.match(JSON.parse(stdout), { ok: false, error: { code: 'project-not-found' } })
    t.notOk(existsSync(to))
  })
})

t.test('a target with other events: exit code 3, and nothing is written', async (t) => {
  const target = join(path, 'other')
  await withDirectory(target, (store) => storeEvents(store, 'own', 1))
  const before = await withDirectory(target, allContentsOf)
  const { code, stdout, stderr } = await ingest(['copy', '--from', source, '--to', target, '--json'])
  t.match({ code, stderr }, { code: 3, stderr: /^ingest: The project alpha has other events in the target/ })
  t.match(JSON.parse(stdout), { ok: false, error: { code: 'precondition-failed', retryable: false } })
  t.strictSame(await withDirectory(target, allContentsOf), before)
})

t.test('a directory keeps the order of receipt of all projects, so older events are refused', async (t) => {
  const target = join(path, 'newer')
  await withDirectory(target, (store) => storeEvents(store, 'e', 1, createClock(1_800_000_000_000)))
  const from = join(path, 'single')
  await withDirectory(from, async (store) => {
    const { submitBatch } = createIngest({ store, now: createClock() }).project('gamma')
    await submitBatch({ events: [{ projectId: 'gamma', eventId: 'a' }] })
  })
  t.match(await ingest(['copy', '--from', from, '--to', target]), { code: 3, stderr: /copy all projects at once/ })
})

t.test('invalid options are wrong usage', async (t) => {
  await isWrongUsage(t, ['copy', '--from', source, '--to', source], /name the same store/)
  await isWrongUsage(t, ['copy', '--from', join(path, 'none'), '--to', join(path, 'made')], /There is no store in/)
  t.notOk(existsSync(join(path, 'made')))
  await isWrongUsage(
    t,
    ['copy', '--from', source, '--to', 'mysql://root:canary@localhost/games'],
    /a store is a directory or/,
  )
  const file = join(path, 'file')
  writeFileSync(file, '')
  await isWrongUsage(t, ['copy', '--from', source, '--to', file], /cannot be a directory/)
})

t.test('an empty directory is not a store', async (t) => {
  const from = join(path, 'empty')
  mkdirSync(from)
  await isWrongUsage(t, ['copy', '--from', from, '--to', join(path, 'made')], /There is no store in/)
  t.strictSame(readdirSync(from), [])
})

const eventCount = 100_000
const large = join(path, 'large')

t.test('a copy that was interrupted or killed is continued', async (t) => {
  await withStore(large, (project) => submitIds(project, idsOf('e', eventCount)))
  const target = join(path, 'large-copy')
  const args = ['copy', '--from', large, '--to', target]

  const interrupted = startRun(args)
  while (!(await interrupted.nextError())?.includes('copying'));
  interrupted.signal('SIGINT')
  t.match(await interrupted.exited, {
    code: 130,
    stderr: /SIGINT: the copy is incomplete; run it again to continue\n$/,
  })

  const killed = startIngest(args)
  const end = ended(killed)
  killed.stderr.on('data', (text) => String(text).includes('copying') && killed.kill('SIGKILL'))
  t.match(await end, { signal: 'SIGKILL' })
  const begun = await withStore(target, async (project) => (await project.getStats()).events)
  t.ok(begun > 0 && begun < eventCount, `${begun} events were copied`)

  const { code, stdout } = await spawnIngest([...args, '--json'])
  t.equal(code, 0)
  t.match(JSON.parse(stdout).projects, [{ projectId, events: eventCount, copied: eventCount - begun }])
  const exported = await exportedWithoutCursors(['--store', large], projectId)
  t.equal(await exportedWithoutCursors(['--store', target], projectId), exported)
})
