import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { createIngest, digestOf } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import t, { type Test } from 'tap'
import { ingestCommand, ownEnvironment, spawnIngest } from '../ingest-process.ts'
import { ingest, isWrongUsage, startRun } from '../run-ingest.ts'
import { openServed, projectId, startProxy } from '../served.ts'

/** A map of about so many bytes, the same for the same seed. `moved` is the number of a part that stands elsewhere. */
function mapOf(bytes: number, { seed = 1, moved = -1 } = {}): Buffer {
  // a generator of D. H. Lehmer's kind, with the numbers of Park and Miller
  let state = seed
  const random = () => {
    state = (state * 48_271) % 2_147_483_647
    return state
  }
  const parts: string[] = []
  for (let size = 0; size < bytes; ) {
    const position = [random(), random(), random()]
    const part = { id: parts.length, position: parts.length === moved ? [1, 2, 3] : position, size: random() }
    const text = JSON.stringify(part)
    parts.push(text)
    size += text.length + 1
  }
  return Buffer.from(`{"parts":[${parts.join(',')}]}`)
}

const directory = t.testdir()
const data = join(directory, 'data')
const megabyte = 1_000_000
const map = mapOf(megabyte)

let count = 0
const mapFile = fileOf(map)

/** Writes a file, and returns its path. */
function fileOf(bytes: Buffer, name = `${++count}.json`): string {
  const path = join(directory, name)
  writeFileSync(path, bytes)
  return path
}

const local = { env: { INGEST_STORE: data, INGEST_PROJECT_ID: projectId } }
await createIngest({ store: await openLmdbStore(data) }).close()
/** Tests of the commands that read the three maps. */
async function readsMaps(t: Test, name: string, settings: { env: Record<string, string> }) {
  const one = ['--place', '1', '--build', 'b-1']
  const maps = (...args: string[]) => ingest(['maps', ...args], settings)

  await t.test(`${name}, list sorts maps by build and place`, async (t) => {
    const { code, stdout, stderr } = await maps('list')
    t.match({ code, stderr }, { code: 0, stderr: /^$/ })
    const rows = stdout.trimEnd().split('\n')
    t.match(rows[0], /^PLACE +BUILD +STATE +BUILD IS +BYTES +PUBLISHED +DIGEST$/)
    t.match(rows.slice(1), [/^1 +b-1 +complete +open /, /^2 +b-1 +complete +open /, /^1 +b-2 +complete +frozen /])
    t.ok(rows.slice(1).every((row) => row.endsWith(digestOf(map))))
    t.equal(rows[1]?.search(/\d {2}20\d\d-/), rows[0]?.indexOf('S  PUBLISHED'), 'numbers are aligned to the right')
    for (const [args, found] of [
      ['--place 1', 'b-1 b-2'],
      ['--build b-1', 'b-1 b-1'],
      ['--place 1 --build b-2', 'b-2'],
      ['--place 3', ''],
    ] as const) {
      const listed: { buildId: string }[] = JSON.parse((await maps('list', '--json', ...args.split(' '))).stdout).maps
      t.equal(listed.map(({ buildId }) => buildId).join(' '), found)
    }
  })

  await t.test(`${name}, show, download and verify read a map`, async (t) => {
    const shown = /^place {6}1\nbuild {6}b-1, open\nstate {6}complete\ndigest {5}sha256:/
    t.match((await maps('show', ...one)).stdout, shown)
    const { stdout } = await maps('show', '--json', '--place', '1', '--build', 'b-2')
    const expected = { buildId: 'b-2', frozen: true, digest: digestOf(map), missing: [], pending: null }
    t.match(JSON.parse(stdout), expected)

    t.equal((await maps('download', ...one)).stdout, map.toString())
    const output = join(t.testdir({ there: 'as it was', other: 'something else' }), 'there')
    const downloaded = { code: 0, stdout: `downloaded ${output}\n`, stderr: /^$/ }
    t.match(await maps('download', ...one, '--output', output), downloaded)
    t.ok(readFileSync(output).equals(map))
    t.strictSame(readdirSync(join(output, '..')), ['other', 'there'])

    const verified = `verified 1 b-1 ${digestOf(map)} ${map.length} bytes\n`
    t.match(await maps('verify', ...one), { code: 0, stdout: verified, stderr: /^$/ })
    t.match(await maps('verify', ...one, '--file', output), { code: 0, stdout: verified })
    t.match(await maps('verify', ...one, '--file', join(output, '../other')), {
      code: 5,
      stdout: /^$/,
      stderr: /^ingest: .*other does not match the map: expected sha256:.*, but found sha256:.*, 14 bytes\.\n$/,
    })
    await isWrongUsage(t, ['maps', 'verify', ...one, '--file', 'none'], /file cannot be read/, settings)
    const missing = { code: 3, stdout: /^$/, stderr: /^ingest: .* for place 1 and build none\.\n$/ }
    for (const command of ['show', 'download', 'verify']) {
      t.match(await maps(command, '--place', '1', '--build', 'none'), missing, command)
    }
  })
}

t.test('--store publishes to a store directly, which a server serves afterwards', async (t) => {
  for (const [place, build] of [
    ['1', 'b-1'],
    ['2', 'b-1'],
    ['1', 'b-2'],
  ] as const) {
    const args = ['publish-map', mapFile, '--place', place, '--build', build, '--json']
    const { code, stdout, stderr } = await ingest(args, local)
    // the chunks of the first one are those of the others
    const isFirst = place === '1' && build === 'b-1'
    t.match({ code, stderr }, { code: 0, stderr: isFirst ? /^ingest: uploading [^\n]*\n$/ : /^$/ })
    t.match(JSON.parse(stdout), { ok: true, outcome: 'created' })
  }
  await ingest(['send', '-'], { ...local, stdin: '{"eventId":"e","buildId":"b-2"}' })
  const other = fileOf(mapOf(20_000))
  t.match(await ingest(['publish-map', other, '--place', '1', '--build', 'b-2'], local), { code: 3 })
  await readsMaps(t, 'in a store', local)
  const remote = await openServed(t, { store: await openLmdbStore(data) })
  await readsMaps(t, 'over HTTP', remote)
  const again = await ingest(['publish-map', mapFile, '--place', '1', '--build', 'b-1'], remote)
  t.match(again, { code: 0, stdout: /^unchanged .*: 0 chunks sent/ })
})

const { env, url, project } = await openServed(t)
const small = mapOf(20_000)
const smallFile = fileOf(small)

function publish(file: string, build: string, ...args: string[]) {
  return ingest(['publish-map', file, '--place', '1', '--build', build, ...args], { env })
}

async function publishJson(file: string, build: string, ...args: string[]) {
  const { code, stdout } = await publish(file, build, '--json', ...args)
  t.match(stdout, /^\{.*\}\n$/, 'one object')
  return { code, result: JSON.parse(stdout) }
}

const ofBuild = (command: string, build: string, ...args: string[]) =>
  ingest(['maps', command, '--place', '1', '--build', build, ...args], { env })
const contentOf = async (build: string) => (await ofBuild('download', build)).stdout
const freeze = (buildId: string) =>
  project.submitBatch({ events: [{ projectId, eventId: `freezes-${buildId}`, buildId }] })

t.test('a map is created, and a second run reports it as unchanged', async (t) => {
  const what = `1 lines ${digestOf(small)} ${small.length} bytes`
  t.match(await publish(smallFile, 'lines'), {
    code: 0,
    stdout: new RegExp(`^created ${what}: 1 chunk sent \\(20\\.. kB\\), 0 reused, in [\\d.]+ s\\n$`),
    stderr: /^ingest: uploading 0 B of 20\.. kB, 0 of 1 chunk\n$/,
  })
  t.match(await publish(smallFile, 'lines'), {
    code: 0,
    stdout: new RegExp(`^unchanged ${what}: 0 chunks sent \\(0 B\\), 1 reused, in `),
    stderr: /^$/,
  })
  t.equal(await contentOf('lines'), small.toString())
  const { code, result } = await publishJson(smallFile, 'json')
  t.equal(code, 0)
  const { durationMs, ...rest } = result
  t.ok(Number.isInteger(durationMs))
  t.strictSame(rest, {
    ok: true,
    outcome: 'created',
    placeId: '1',
    buildId: 'json',
    digest: digestOf(small),
    size: small.length,
    contentType: 'application/json',
    chunks: 1,
    uploadedChunks: 0,
    uploadedBytes: 0,
    frozen: false,
  })
  t.strictSame(await publish(smallFile, 'quiet', '--quiet'), { code: 0, signal: null, stdout: '', stderr: '' })
})

t.test('a map with one changed part sends only a few chunks', async (t) => {
  const first = mapOf(10 * megabyte)
  const moved = mapOf(10 * megabyte, { moved: 50_000 })
  const whole = await publishJson(fileOf(first), 'large')
  t.match(whole, { code: 0, result: { outcome: 'created', uploadedBytes: first.length } })
  const file = fileOf(moved)
  const part = await publishJson(file, 'large-2')
  t.match(part, { code: 0, result: { outcome: 'created', size: moved.length } })
  t.ok(part.result.uploadedBytes < moved.length / 10, String(part.result.uploadedBytes))
  t.match(await ofBuild('verify', 'large-2', '--file', file), { code: 0, stderr: /^$/ })
})

t.test('standard input is published, and the content type depends on the file name', async (t) => {
  const args = ['publish-map', '-', '--place', '1', '--build', 'stdin', '--json']
  const { code, stdout } = await ingest(args, { env, stdin: small.toString() })
  t.equal(code, 0)
  t.match(JSON.parse(stdout), { outcome: 'created', digest: digestOf(small), contentType: 'application/octet-stream' })
  for (const [name, args, contentType] of [
    ['map.bin', [], 'application/octet-stream'],
    ['MAP.JSON', [], 'application/json'],
    ['map.json', ['--content-type', 'text/plain'], 'text/plain'],
  ] as const) {
    const { result } = await publishJson(fileOf(small, name), `type-${name}`, ...args)
    t.equal(result.contentType, contentType)
  }
})

t.test('a frozen build: its first map is accepted, the same is unchanged, a different one is refused', async (t) => {
  const other = fileOf(mapOf(20_000, { seed: 2 }))
  await freeze('frozen')
  t.match(await publishJson(smallFile, 'frozen'), { code: 0, result: { outcome: 'created', frozen: true } })
  t.match(await publishJson(smallFile, 'frozen'), { code: 0, result: { ok: true, outcome: 'unchanged', frozen: true } })
  t.match(await publish(other, 'frozen'), { code: 3, stdout: /^$/, stderr: /^ingest: .*frozen.*\n$/ })
  t.match(await publishJson(other, 'frozen'), {
    code: 3,
    result: { ok: false, error: { code: 'map-frozen', message: /frozen/, retryable: false } },
  })
  t.match(await publish(other, 'frozen', '--on-frozen', 'warn'), {
    code: 0,
    stdout: /^frozen 1 frozen: not published\n$/,
    stderr: /^ingest: not published: .*frozen.*\n$/,
  })
  t.match(await publishJson(other, 'frozen', '--on-frozen', 'warn'), {
    code: 0,
    result: { ok: false, outcome: 'frozen', error: { code: 'map-frozen' } },
  })
  t.equal(await contentOf('frozen'), small.toString())
})

t.test('--allow-empty, --if-absent and --expect', async (t) => {
  const empty = fileOf(Buffer.alloc(0))
  const refused = { code: 5, stdout: /^$/, stderr: /^ingest: The map is empty.*--allow-empty.*\n$/ }
  t.match(await publish(empty, 'empty'), refused)
  t.match(await publish(empty, 'empty', '--allow-empty'), { code: 0, stdout: /^created .* 0 bytes/ })
  const other = fileOf(mapOf(20_000, { seed: 4 }))
  t.match(await publish(smallFile, 'conditions', '--if-absent'), { code: 0 })
  t.match(await publish(smallFile, 'conditions', '--if-absent'), { code: 0, stdout: /^unchanged / })
  t.match(await publish(other, 'conditions', '--if-absent'), { code: 3, stdout: /^$/, stderr: /^ingest: .*\n$/ })
  t.match(await publish(other, 'conditions', '--expect', digestOf(Buffer.from('else'))), { code: 3 })
  t.equal(await contentOf('conditions'), small.toString())
  t.match(await publish(other, 'conditions', '--expect', digestOf(small)), { code: 0, stdout: /^replaced / })
  t.match(await publish(smallFile, 'b'.repeat(129)), { code: 5, stdout: /^$/, stderr: /^ingest: .*\n$/ })
})

t.test('--dry-run prints what would happen and changes nothing', async (t) => {
  const file = fileOf(mapOf(20_000, { seed: 5 }))
  t.match(await publish(file, 'dry', '--dry-run'), {
    code: 0,
    stdout: /^dry run: 1 chunk to send \(20\.. kB\): 1 dry sha256:/,
    stderr: /^$/,
  })
  t.match(await publishJson(file, 'dry', '--dry-run'), {
    code: 0,
    result: { ok: true, dryRun: true, outcome: 'incomplete', missingChunks: 1, uploadedChunks: 0 },
  })
  t.match(await ofBuild('show', 'dry'), { code: 3 })
  t.match(await publish(smallFile, 'frozen', '--dry-run'), { code: 0, stdout: /^dry run: unchanged: / })
  t.match(await publish(file, 'frozen', '--dry-run'), { code: 3 })
})

t.test('an unreachable server: exit code 6, and advice; the URL of another service: exit code 2', async (t) => {
  const away = ['--url', 'http://127.0.0.1:1', '--retries', '1']
  const advice = { code: 6, stdout: /^$/, stderr: /^ingest: .*[.?] Run it again to resume\.\n$/ }
  t.match(await publish(smallFile, 'b', ...away), advice)
  for (const status of [200, 301, 404, 405]) {
    const other = createServer((req, res) => {
      req.resume().on('end', () => res.writeHead(status, { 'Content-Type': 'text/html' }).end('<h1>Hello</h1>'))
    })
    await once(other.listen(0, '127.0.0.1'), 'listening')
    const { port } = other.address() as AddressInfo
    t.match(await publish(smallFile, 'b', '--url', `http://127.0.0.1:${port}`), { code: 2, stdout: /^$/ }, `${status}`)
    other.close()
  }
  const wrongPath = { code: 2, stdout: /^$/, stderr: /\/ingest does not serve this request/ }
  t.match(await publish(smallFile, 'b', '--url', `${url}/ingest`), wrongPath)
})

/** Calls `then` at this chunk upload, and delays later ones until it is done. */
function afterChunks(wanted: number, then: () => void) {
  let chunks = 0
  return ({ url = '' }: { url?: string | undefined }) => {
    if (url.startsWith('/v1/maps/chunks') && ++chunks === wanted) then()
  }
}

t.test('a file that changes during the upload: exit code 7, and nothing is published', async (t) => {
  const file = fileOf(mapOf(2 * megabyte, { seed: 6 }))
  const change = () => writeFileSync(file, mapOf(2 * megabyte, { seed: 7 }))
  const proxy = await startProxy(t, () => url, afterChunks(2, change))
  t.match(await publishJson(file, 'changed', '--url', proxy.url, '--concurrency', '1'), {
    code: 7,
    result: { ok: false, error: { code: 'source-changed' } },
  })
  t.match(await ofBuild('verify', 'changed'), { code: 3 })
})

for (const [name, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
  ['an unreachable server', 6],
] as const) {
  t.test(`${name} while uploading: exit code ${code}, and the next run resumes`, async (t) => {
    const bytes = mapOf(2 * megabyte, { seed: code })
    const file = fileOf(bytes)
    const proxy = await startProxy(
      t,
      () => url,
      afterChunks(4, () => {
        if (name.startsWith('SIG')) running.signal(name as NodeJS.Signals)
        else proxy.isDown = true
      }),
    )
    const args = ['publish-map', file, '--place', '1', '--build', name, '--json', '--concurrency', '1']
    const running = startRun([...args, '--url', proxy.url, '--retries', '1'], { env })
    const end = await running.exited
    t.match(end, { code, stderr: /[Rr]un it again to resume/ })
    const error = code === 6 ? 'connection-failed' : 'interrupted'
    t.match(JSON.parse(end.stdout), { ok: false, error: { code: error, retryable: true } })
    t.match(await ofBuild('show', name, '--json'), { code: 0, stdout: /"state":"incomplete"/ })
    const again = await publishJson(file, name)
    t.match(again, { code: 0, result: { ok: true, outcome: 'created' } })
    t.ok(again.result.uploadedChunks < again.result.chunks, 'stored chunks are not sent again')
    t.equal(await contentOf(name), bytes.toString())
  })
}

t.test('SIGTERM ends the built command while it waits for standard input', async (t) => {
  const [command = '', ...rest] = ingestCommand(['publish-map', '-', '--place', '1', '--build', 'waiting'])
  const temporary = t.testdir()
  const child = spawn(command, rest, {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...ownEnvironment(), ...env, TMPDIR: temporary },
  })
  // it listens to signals once it spools
  child.stdin.on('error', () => {}).write('{')
  while (readdirSync(temporary).length === 0) await delay(10)
  child.kill('SIGTERM')
  const [code] = await once(child, 'exit')
  t.equal(code, 143)
  t.strictSame(readdirSync(temporary), [], 'the spooled part is removed')
})

t.test('a download that fails leaves an existing file unchanged, and no other', async (t) => {
  const parent = t.testdir({ there: 'as it was', directory: {} })
  const output = join(parent, 'there')
  const proxy = await startProxy(
    t,
    () => url,
    ({ url = '' }) => {
      if (url.startsWith('/v1/maps/content')) running.signal('SIGINT')
    },
  )
  const download = ['maps', 'download', '--place', '1', '--build', 'lines', '--output']
  const running = startRun([...download, output, '--url', proxy.url], { env })
  t.match(await running.exited, { code: 130, stderr: 'ingest: SIGINT: the map was not downloaded\n' })
  for (const path of ['none/map', 'directory']) {
    await isWrongUsage(t, [...download, join(parent, path)], /cannot be written: E/, { env })
  }
  t.strictSame(readdirSync(parent), ['directory', 'there'])
  t.equal(readFileSync(output, 'utf8'), 'as it was')
})

t.test('a reader that closes the pipe ends a download with exit code 0', async (t) => {
  const { code, stderr } = await spawnIngest(['maps', 'download', '--place', '1', '--build', 'large'], {
    env,
    readBytes: 1,
  })
  t.strictSame({ code, stderr }, { code: 0, stderr: '' })
})
