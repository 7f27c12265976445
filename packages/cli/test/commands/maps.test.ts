import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { spawnIngest, startServe } from '../ingest-process.ts'
import { digestOf, mapOf } from '../map-parts.ts'
import { ingest, isWrongUsage, startRun } from '../run-ingest.ts'
import { createKey, projectId, send, startProxy } from '../served.ts'

const directory = t.testdir()
const data = join(directory, 'data')
const key = await createKey(data)
const server = await startServe(t, ['--store', data, '--rate-limit', 'off'])
const served = { env: { INGEST_URL: server.url, INGEST_PROJECT_ID: projectId, INGEST_KEY: key } }
const stored = { env: { INGEST_STORE: data, INGEST_PROJECT_ID: projectId } }

const map = mapOf(1_000_000)
const file = join(directory, 'map.json')
writeFileSync(file, map)
for (const [place, build] of [
  ['1', 'b-1'],
  ['2', 'b-1'],
  ['1', 'b-2'],
] as const) {
  const { code, stderr } = await ingest(['publish-map', file, '--place', place, '--build', build, '--quiet'], served)
  if (code !== 0) throw new Error(stderr)
}
await send({ ...server, key }, JSON.stringify({ events: [{ projectId, eventId: 'e', buildId: 'b-2' }] }))
const one = ['--place', '1', '--build', 'b-1']

for (const [name, settings] of [
  ['over HTTP', served],
  ['in a store', stored],
] as const) {
  t.test(`${name}, list sorts maps by build and place`, async (t) => {
    const { code, stdout, stderr } = await ingest(['maps', 'list'], settings)
    t.match({ code, stderr }, { code: 0, stderr: /^$/ })
    const rows = stdout.trimEnd().split('\n')
    t.match(rows[0], /^PLACE +BUILD +STATE +BUILD IS +BYTES +PUBLISHED +DIGEST$/)
    t.match(rows.slice(1), [/^1 +b-1 +complete +open /, /^2 +b-1 +complete +open /, /^1 +b-2 +complete +frozen /])
    t.ok(rows.slice(1).every((row) => row.endsWith(digestOf(map))))
    t.equal(rows[1]?.search(/\d {2}20\d\d-/), rows[0]?.indexOf('S  PUBLISHED'), 'numbers are aligned to the right')
    for (const [args, found] of [
      [
        ['--place', '1'],
        ['b-1', 'b-2'],
      ],
      [
        ['--build', 'b-1'],
        ['b-1', 'b-1'],
      ],
      [['--place', '1', '--build', 'b-2'], ['b-2']],
      [['--place', '3'], []],
    ] as const) {
      const { stdout } = await ingest(['maps', 'list', '--json', ...args], settings)
      const maps: { buildId: string }[] = JSON.parse(stdout).maps
      t.strictSame(
        maps.map(({ buildId }) => buildId),
        found,
      )
    }
  })

  t.test(`${name}, show prints the state of a map`, async (t) => {
    const { stdout } = await ingest(['maps', 'show', ...one], settings)
    t.match(stdout, /^place {6}1\nbuild {6}b-1, open\nstate {6}complete\ndigest {5}sha256:/)
    t.match(JSON.parse((await ingest(['maps', 'show', '--json', '--place', '1', '--build', 'b-2'], settings)).stdout), {
      buildId: 'b-2',
      frozen: true,
      digest: digestOf(map),
      missing: [],
      pending: null,
    })
  })

  t.test(`${name}, download writes all bytes or nothing`, async (t) => {
    t.equal((await ingest(['maps', 'download', ...one], settings)).stdout, map.toString())
    const output = join(t.testdir({ there: 'as it was' }), 'there')
    t.match(await ingest(['maps', 'download', ...one, '--output', output], settings), {
      code: 0,
      stdout: `downloaded ${output}\n`,
      stderr: /^$/,
    })
    t.ok(readFileSync(output).equals(map))
    t.strictSame(readdirSync(join(output, '..')), ['there'])
  })

  t.test(`${name}, verify compares a map with its digest, and with a file`, async (t) => {
    t.match(await ingest(['maps', 'verify', ...one], settings), {
      code: 0,
      stdout: `verified 1 b-1 ${digestOf(map)} ${map.length} bytes\n`,
      stderr: /^$/,
    })
    t.match(await ingest(['maps', 'verify', ...one, '--file', file], settings), { code: 0 })
    const other = join(t.testdir({ other: 'something else' }), 'other')
    t.match(await ingest(['maps', 'verify', ...one, '--file', other], settings), {
      code: 5,
      stdout: /^$/,
      stderr: /^ingest: .*other does not match the map: expected sha256:.*, but found sha256:.*, 14 bytes\.\n$/,
    })
    await isWrongUsage(t, ['maps', 'verify', ...one, '--file', `${file}.not`], /file cannot be read/, settings)
  })

  t.test(`${name}, a missing map: exit code 3`, async (t) => {
    for (const command of ['show', 'download', 'verify']) {
      t.match(await ingest(['maps', command, '--place', '1', '--build', 'none'], settings), {
        code: 3,
        stdout: /^$/,
        stderr: /^ingest: .* for place 1 and build none\.\n$/,
      })
    }
  })
}

t.test('the maps of an unknown project: exit code 3', async (t) => {
  const { code, stdout } = await ingest(['maps', 'list', '--json', '--project', 'unknown'], stored)
  t.match([code, JSON.parse(stdout).error.code], [3, 'project-not-found'])
})

t.test('an unwritable download leaves no file', async (t) => {
  const parent = t.testdir({ directory: {} })
  const download = ['maps', 'download', ...one, '--output']
  await isWrongUsage(t, [...download, join(parent, 'none', 'map')], /cannot be written: E/, served)
  await isWrongUsage(t, [...download, join(parent, 'directory')], /cannot be written: E/, served)
  t.strictSame(readdirSync(parent), ['directory'])
})

t.test('an interrupted download leaves an existing file unchanged', async (t) => {
  const parent = t.testdir({ there: 'as it was' })
  const proxy = await startProxy(
    t,
    () => server.url,
    ({ url = '' }) => {
      if (url.startsWith('/v1/maps/content')) running.signal('SIGINT')
    },
  )
  const output = join(parent, 'there')
  const running = startRun(['maps', 'download', ...one, '--output', output, '--url', proxy.url], served)
  t.match(await running.exited, { code: 130, stderr: 'ingest: SIGINT: the map was not downloaded\n' })
  t.strictSame(readdirSync(parent), ['there'])
  t.equal(readFileSync(output, 'utf8'), 'as it was')
})

t.test('a reader that closes the pipe ends a download with exit code 0', async (t) => {
  const { code, stderr } = await spawnIngest(['maps', 'download', ...one], { ...served, readBytes: 1 })
  t.strictSame({ code, stderr }, { code: 0, stderr: '' })
})

t.test('invalid credentials and wrong usage', async (t) => {
  t.match(await ingest(['maps', 'list'], { env: { ...served.env, INGEST_KEY: 'wrong' } }), { code: 4 })
  await isWrongUsage(t, ['maps', 'list', '--store', data, '--project', 'a b'], /Expected a project id/)
  for (const command of ['show', 'download', 'verify']) {
    await isWrongUsage(t, ['maps', command, '--build', 'b'], /required option '--place <id>' not specified/, served)
    await isWrongUsage(t, ['maps', command, '--place', '1'], /required option '--build <id>' not specified/, served)
  }
  await isWrongUsage(t, ['maps', 'list', '--store', join(directory, 'none'), '--project', 'p'], /There is no store/)
  t.notOk(existsSync(join(directory, 'none')))
})
