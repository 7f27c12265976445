import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServe } from '../ingest-process.ts'
import { ingest, isWrongUsage } from '../run-ingest.ts'
import { createKey, projectId, send, submitIds, unknownProject, withStore } from '../served.ts'

const data = join(t.testdir(), 'data')
const key = await createKey(data)
const server = await startServe(t, ['--store', data])
const events = ['a', 'b', 'c'].map((eventId, i) => ({
  projectId,
  eventId,
  playerId: i === 2 ? '8' : 7,
  buildId: eventId,
}))
await send({ ...server, key }, JSON.stringify({ events }))
const env = { INGEST_STORE: data, INGEST_PROJECT_ID: projectId }

t.test('erase asks for confirmation, and can only count', async (t) => {
  await isWrongUsage(t, ['erase', '--player', '7'], /--yes/, { env })
  await isWrongUsage(t, ['erase', '--yes'], /--player <id>, --where/, { env })
  for (const selection of ['playerId=7', '/playerId']) {
    await isWrongUsage(t, ['erase', '--where', selection, '--yes'], /--where .*JSON Pointer and a value/, { env })
  }
  const { stdout } = await ingest(['erase', '--where', '/playerId="8"', '--dry-run', '--json'], { env })
  t.match(JSON.parse(stdout), { ok: true, dryRun: true, projects: [{ projectId, events: 1 }] })
  t.equal((await ingest(['find', 'c'], { env })).code, 0)
})

t.test('a player is erased beside a server, whose find says so', async (t) => {
  const { code, stdout } = await ingest(['erase', '--player', '7', '--yes'], { env })
  t.equal(code, 0)
  t.match(stdout, /ERASED[\s\S]*game-1 +2/)
  const remote = { INGEST_URL: server.url, INGEST_PROJECT_ID: projectId, INGEST_KEY: key }
  for (const from of [env, remote]) {
    t.match((await ingest(['find', 'a'], { env: from })).stdout, /\nerased /)
    t.match(JSON.parse((await ingest(['find', 'a', '--json'], { env: from })).stdout), { ok: true, erased: 'a' })
    const lines = (await ingest(['export'], { env: from })).stdout.trim().split('\n')
    t.strictSame(
      lines.map((line) => JSON.parse(line).event.eventId),
      ['c'],
    )
  }
})

t.test('a copy carries erased ids and the builds that they froze, and later erasures', async (t) => {
  const copy = join(t.testdir(), 'copy')
  const into = { INGEST_STORE: copy, INGEST_PROJECT_ID: projectId }
  t.match(await ingest(['copy', '--from', data, '--to', copy]), { code: 0 })
  t.match((await ingest(['find', 'a'], { env: into })).stdout, /\nerased /)
  const { stdout } = await ingest(['stats', '--builds', '--json'], { env: into })
  t.equal(JSON.parse(stdout).builds.length, 3)
  t.equal(bytesIn(copy).includes('"playerId":"8"'), true)
  const later = ['erase', '--where', '/eventId="c"', '--yes', '--json']
  t.match(await ingest(later, { env }), { code: 0, stdout: /"events":1/ })
  t.match(await ingest(['copy', '--from', data, '--to', copy]), { code: 0 })
  t.match((await ingest(['find', 'c'], { env: into })).stdout, /\nerased /)
  t.equal(bytesIn(copy).includes('"playerId":"8"'), false)
})

t.test('erasing again finds nothing, also in a project without a key and events', async (t) => {
  const own = join(t.testdir(), 'data')
  await withStore(own, (project) => submitIds(project, ['a']))
  const args = ['erase', '--where', '/eventId="a"', '--yes', '--json', '--store', own, '--project', projectId]
  t.match(await ingest(args), { code: 0, stdout: /"events":1/ })
  t.match(await ingest(args), { code: 0, stdout: /"events":0/ })
})

t.test('an unknown project: exit code 3', async (t) => {
  const unknown = [
    ['erase', '--player', '7', '--yes'],
    ['erase', '--player', '7', '--dry-run'],
    ['erase', '--older-than', '90d', '--yes'],
  ]
  for (const args of unknown) {
    const failure = await ingest([...args, '--project', 'gmae-1'], { env })
    t.strictSame(failure, { code: 3, signal: null, stdout: '', stderr: unknownProject })
    const { stdout } = await ingest([...args, '--project', 'gmae-1', '--json'], { env })
    t.match(JSON.parse(stdout), { ok: false, error: { code: 'project-not-found' } })
  }
})

function bytesIn(directory: string): Buffer {
  return readFileSync(join(directory, 'events', 'data.mdb'))
}

t.test('old events are erased, of all projects unless one is named', async (t) => {
  await isWrongUsage(t, ['erase', '--yes', '--older-than', '0d'], /more than 0/, { env })
  await isWrongUsage(t, ['erase', '--older-than', '90d', '--player', '7'], /cannot be used with/, { env })
  await isWrongUsage(t, ['erase', '--player', '7', '--yes'], /name the project/, { env: { INGEST_STORE: data } })
  await isWrongUsage(t, ['find', 'e', '--timeout', '0s'], /--timeout .* more than 0/, { env })
  const { stdout } = await ingest(['erase', '--older-than', '90d', '--dry-run'], { env: { INGEST_STORE: data } })
  t.match(stdout, /WOULD ERASE[\s\S]*game-1 +0/)
})
