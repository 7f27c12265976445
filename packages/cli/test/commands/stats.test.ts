import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import t from 'tap'
import { startServe } from '../ingest-process.ts'
import { ingest, isWrongUsage } from '../run-ingest.ts'
import { createKey, projectId, send, unknownProject } from '../served.ts'

const directory = t.testdir()
const data = join(directory, 'data')
const key = await createKey(data)
const server = await startServe(t, ['--store', data])
const served = { env: { INGEST_URL: server.url, INGEST_PROJECT_ID: projectId, INGEST_KEY: key } }
const stored = { env: { INGEST_STORE: data, INGEST_PROJECT_ID: projectId } }

const events = Array.from({ length: 100 }, (_, i) => ({ projectId, eventId: `e-${i}`, buildId: `b-${i % 2}` }))
for (let i = 0; i < 12; i++) {
  await send(
    { ...server, key },
    JSON.stringify({ events: events.map((each) => ({ ...each, eventId: `${i}-${each.eventId}` })) }),
  )
}
const file = join(directory, 'map.json')
writeFileSync(file, '{}')
for (const build of ['b-0', 'b-2']) await ingest(['publish-map', file, '--place', '1', '--build', build], served)

/** The cells of a table, which two spaces at least keep apart. */
function cellsOf(stdout: string): string[][] {
  return stdout
    .trimEnd()
    .split('\n')
    .map((line) => line.trim().split(/ {2,}/))
}

const heading = ['PROJECT', 'EVENTS', 'BATCHES', 'BYTES', 'EVENTS/S', 'BUILDS FROZEN', 'MAPS', 'FIRST', 'LAST']
const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const number = /^\d[\d,.]*$/
const row = [projectId, '1,200', '12', /^\d+\.\d kB$/, number, '2 of 3', '2', time, time]

for (const [name, settings] of [
  ['over HTTP', served],
  ['in a store', stored],
] as const) {
  t.test(`${name}, a project is counted`, async (t) => {
    const { code, stdout, stderr } = await ingest(['stats'], settings)
    t.match({ code, stderr }, { code: 0, stderr: /^$/ })
    t.match(cellsOf(stdout), [heading, row])
    t.equal(cellsOf(stdout).length, 2)
    const { projects } = JSON.parse((await ingest(['stats', '--json'], settings)).stdout)
    t.equal(projects.length, 1)
    const [json] = projects
    t.match(json, { projectId, events: 1200, batches: 12, builds: 3, frozenBuilds: 2, maps: 2 })
    t.match(json, { firstAt: time, lastAt: time, eventsPerSecond: Number, bytes: Number })
    t.ok(json.firstAt <= json.lastAt)
  })

  t.test(`${name}, its builds are listed`, async (t) => {
    const { stdout } = await ingest(['stats', '--builds'], settings)
    t.match(cellsOf(stdout), [
      ['BUILD', 'FROZEN SINCE', 'MAPS'],
      ['b-0', time, '1'],
      ['b-1', time, '0'],
      ['b-2', 'open', '1'],
    ])
    t.match(JSON.parse((await ingest(['stats', '--builds', '--json'], settings)).stdout), {
      ok: true,
      projectId,
      builds: [
        { buildId: 'b-0', maps: 1, frozenAt: time },
        { buildId: 'b-1', maps: 0, frozenAt: time },
        { buildId: 'b-2', maps: 1, frozenAt: null },
      ],
    })
  })
}

t.test('without a project, all projects of a store are printed', async (t) => {
  const own = join(t.testdir(), 'own')
  const { project, keys, close } = createIngest({ store: await openLmdbStore(own) })
  await keys.create('quiet')
  await project('busy').submitBatch({ events: [{ projectId: 'busy', eventId: 'a' }] })
  await close()
  const { stdout, stderr } = await ingest(['stats', '--store', own])
  t.equal(stderr, '')
  t.match(cellsOf(stdout), [
    heading,
    ['busy', '1', '1', /^\d+ B$/, number, '0 of 0', '0', time, time],
    ['quiet', '0', '0', '0 B', '0', '0 of 0', '0', 'never', 'never'],
  ])
  t.match(JSON.parse((await ingest(['stats', '--store', own, '--json'])).stdout).projects, [
    { projectId: 'busy', events: 1 },
    { projectId: 'quiet', events: 0, firstAt: null },
  ])
})

t.test('an unknown project: exit code 3', async (t) => {
  for (const more of [[], ['--builds']]) {
    const unknown = ['stats', '--store', data, '--project', 'gmae-1', ...more]
    t.strictSame(await ingest(unknown), { code: 3, signal: null, stdout: '', stderr: unknownProject })
    const { stdout } = await ingest([...unknown, '--json'])
    t.match(JSON.parse(stdout), { ok: false, error: { code: 'project-not-found', retryable: false } })
  }
})

t.test('a server requires --project', async (t) => {
  const pattern = /--project <id>/
  await isWrongUsage(t, ['stats', '--url', server.url], pattern)
  await isWrongUsage(t, ['stats', '--store', data, '--builds'], pattern)
  await isWrongUsage(t, ['stats'], /name a server with --url/)
  await isWrongUsage(t, ['stats', '--store', data, '--project', 'a b'], /Expected a project id/)
  t.match(await ingest(['stats'], { env: { ...served.env, INGEST_KEY: 'wrong' } }), { code: 4, stdout: /^$/ })
})
