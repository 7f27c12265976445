import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { ended, ingestCommand, ownEnvironment, startIngest, startServe } from '../ingest-process.ts'
import { digestOf, mapOf } from '../map-parts.ts'
import { ingest, isWrongUse } from '../run-ingest.ts'
import { createKey, projectId, send } from '../sender.ts'
import { openKilled, startProxy } from '../start-proxy.ts'

const directory = t.testdir()
const data = join(directory, 'data')
const key = await createKey(data)
const server = await startServe(t, ['--data', data, '--rate-limit', 'off'])
const env = { INGEST_URL: server.url, INGEST_PROJECT_ID: projectId, INGEST_KEY: key }
const megabyte = 1_000_000
let count = 0

/** Writes a file, and returns its path. */
function fileOf(bytes: Buffer, name = `${++count}.json`): string {
  const path = join(directory, name)
  writeFileSync(path, bytes)
  return path
}

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

async function contentOf(build: string): Promise<string> {
  const { stdout } = await ingest(['maps', 'download', '--place', '1', '--build', build], { env })
  return stdout
}

async function freeze(build: string): Promise<void> {
  const body = JSON.stringify({ events: [{ projectId, eventId: `freezes-${build}`, buildId: build }] })
  t.match(await send({ ...server, key }, body), { status: 202, body: { accepted: 1 } })
}

t.test('a map is published, and again it is unchanged; one line says so', async (t) => {
  const digest = digestOf(small)
  t.match(await publish(smallFile, 'lines'), {
    code: 0,
    stdout: new RegExp(
      `^created 1 lines ${digest} ${small.length} bytes: 1 chunk sent \\(20\\.. kB\\), 0 reused, in [\\d.]+ s\\n$`,
    ),
    stderr: /^ingest: uploading 0 B of 20\.. kB, 0 of 1 chunk\n$/,
  })
  t.match(await publish(smallFile, 'lines'), {
    code: 0,
    stdout: new RegExp(`^unchanged 1 lines ${digest} ${small.length} bytes: 0 chunks sent \\(0 B\\), 1 reused, in `),
    stderr: /^$/,
  })
  t.equal(await contentOf('lines'), small.toString())
})

t.test('--json is one object, and --quiet is nothing', async (t) => {
  const { code, result } = await publishJson(smallFile, 'json')
  t.equal(code, 0)
  t.match(result, {
    ok: true,
    outcome: 'created',
    digest: digestOf(small),
    size: small.length,
    contentType: 'application/json',
    chunks: 1,
    uploadedChunks: 0,
    uploadedBytes: 0,
    frozen: false,
  })
  t.ok(Number.isInteger(result.durationMs))
  t.strictSame(await publish(smallFile, 'quiet', '--quiet'), { code: 0, signal: null, stdout: '', stderr: '' })
})

t.test('of a map in which one part was moved, little is sent, and what comes back is the file', async (t) => {
  const first = mapOf(20 * megabyte)
  const moved = mapOf(20 * megabyte, { moved: 100_000 })
  t.not(digestOf(first), digestOf(moved))
  const whole = await publishJson(fileOf(first), 'large')
  t.match(whole, { code: 0, result: { outcome: 'created', uploadedBytes: first.length } })
  const file = fileOf(moved)
  const part = await publishJson(file, 'large-2')
  t.match(part, { code: 0, result: { outcome: 'created', size: moved.length } })
  t.ok(part.result.uploadedBytes < moved.length / 20, String(part.result.uploadedBytes))
  const output = join(directory, 'download')
  const map = ['--place', '1', '--build', 'large-2']
  t.match(await ingest(['maps', 'download', ...map, '--output', output], { env }), { code: 0, stderr: /^$/ })
  t.ok(readFileSync(output).equals(moved))
  t.match(await ingest(['maps', 'verify', ...map, '--file', file], { env }), { code: 0, stderr: /^$/ })
})

t.test('standard input is a map, and the name of a file says what it is', async (t) => {
  const script = '"$0" "$@" < "$MAP"'
  const args = ['publish-map', '-', '--place', '1', '--build', 'stdin', '--json']
  const child = spawn('sh', ['-c', script, ...ingestCommand(args)], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...ownEnvironment(), ...env, MAP: smallFile },
  })
  const { code, stdout } = await ended(child)
  t.equal(code, 0)
  t.match(JSON.parse(stdout), { outcome: 'created', digest: digestOf(small), contentType: 'application/octet-stream' })
  const types = [
    ['map.bin', [], 'application/octet-stream'],
    ['MAP.JSON', [], 'application/json'],
    ['map.json', ['--content-type', 'text/plain'], 'text/plain'],
  ] as const
  for (const [name, args, contentType] of types) {
    const { result } = await publishJson(fileOf(small, name), `type-${name}`, ...args)
    t.equal(result.contentType, contentType)
  }
})

t.test('a frozen build: the same map is unchanged, another is refused, and nothing changes', async (t) => {
  const other = fileOf(mapOf(20_000, { seed: 2 }))
  t.match(await publish(smallFile, 'frozen'), { code: 0 })
  await freeze('frozen')
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

t.test('a first map after the events of its build is taken once', async (t) => {
  await freeze('late')
  t.match(await publishJson(smallFile, 'late'), { code: 0, result: { outcome: 'created', frozen: true } })
  t.match(await publish(fileOf(mapOf(20_000, { seed: 3 })), 'late'), { code: 3 })
})

t.test('an empty file is refused, unless it is meant', async (t) => {
  const empty = fileOf(Buffer.alloc(0))
  t.match(await publish(empty, 'empty'), {
    code: 5,
    stdout: /^$/,
    stderr: /^ingest: The map is empty.*--allow-empty.*\n$/,
  })
  t.match(await publish(empty, 'empty', '--allow-empty'), { code: 0, stdout: /^created .* 0 bytes/ })
})

t.test('--if-absent and --expect are conditions', async (t) => {
  const other = fileOf(mapOf(20_000, { seed: 4 }))
  t.match(await publish(smallFile, 'conditions', '--if-absent'), { code: 0 })
  t.match(await publish(smallFile, 'conditions', '--if-absent'), { code: 0, stdout: /^unchanged / })
  t.match(await publish(other, 'conditions', '--if-absent'), { code: 3, stdout: /^$/, stderr: /^ingest: .*\n$/ })
  t.match(await publish(other, 'conditions', '--expect', digestOf(Buffer.from('else'))), { code: 3 })
  t.equal(await contentOf('conditions'), small.toString())
  t.match(await publish(other, 'conditions', '--expect', digestOf(small)), { code: 0, stdout: /^replaced / })
})

t.test('--dry-run says what would happen, and nothing does', async (t) => {
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
  t.match(await ingest(['maps', 'show', '--place', '1', '--build', 'dry'], { env }), { code: 3 })
  t.match(await publish(smallFile, 'frozen', '--dry-run'), { code: 0, stdout: /^dry run: unchanged: / })
  t.match(await publish(file, 'frozen', '--dry-run'), { code: 3 })
})

t.test('wrong use', async (t) => {
  const publication = ['publish-map', smallFile, '--place', '1', '--build', 'b']
  const settings = { env }
  await isWrongUse(t, ['publish-map', ...publication.slice(2)], /missing <file>/, settings)
  await isWrongUse(t, ['publish-map', smallFile, '--build', 'b'], /missing --place <id>/, settings)
  await isWrongUse(t, ['publish-map', smallFile, '--place', '1'], /missing --build <id>/, settings)
  await isWrongUse(t, publication, /missing .*--project <id>/)
  await isWrongUse(t, [...publication, '--project', 'p'], /missing --url <url> \(or INGEST_URL\) or --data/)
  await isWrongUse(t, [...publication, '--url', 'http://x', '--data', data], /and not both/, settings)
  await isWrongUse(t, [...publication, '--url', 'ftp://x'], /url must be the address of the server/, settings)
  await isWrongUse(t, ['publish-map', `${smallFile}.not`, ...publication.slice(2)], /cannot be read/, settings)
  await isWrongUse(t, ['publish-map', directory, ...publication.slice(2)], /is a directory/, settings)
  await isWrongUse(t, [...publication, '--expect', 'abc'], /--expect is a digest/, settings)
  await isWrongUse(t, [...publication, '--if-absent', '--expect', digestOf(small)], /cannot be used with/, settings)
  await isWrongUse(t, [...publication, '--on-frozen', 'ignore'], /Allowed choices are fail, warn/, settings)
  await isWrongUse(t, [...publication, '--key-file', `${smallFile}.not`], /key file cannot be read/, settings)
  for (const concurrency of ['0', '17', 'x']) {
    await isWrongUse(t, [...publication, '--concurrency', concurrency], /whole number from 1 to 16/, settings)
  }
  t.match(await publishJson(`${smallFile}.not`, 'b'), { code: 2, result: { error: { code: 'invalid-argument' } } })
  t.match(await publishJson(smallFile, 'b', '--on-frozen', 'ignore'), {
    code: 2,
    result: { ok: false, error: { code: 'invalid-argument', message: /Allowed choices/, retryable: false } },
  })
})

t.test('a key on the command line is refused, and not repeated', async (t) => {
  const publication = ['publish-map', smallFile, '--place', '1', '--build', 'b', '--json']
  for (const args of [['--key', key], [`--key=${key}`]]) {
    const { code, stdout, stderr } = await ingest([...publication, ...args], { env })
    t.match({ code, stderr }, { code: 2, stderr: /^ingest: a key does not go on a command line.*INGEST_KEY.*\n$/ })
    t.match(JSON.parse(stdout), { ok: false, error: { code: 'invalid-argument' } })
    t.notMatch(stdout + stderr, key)
  }
})

t.test('credentials: exit 4', async (t) => {
  const publication = ['publish-map', smallFile, '--place', '1', '--build', 'keys']
  const wrong = `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`
  for (const INGEST_KEY of ['', 'two words', wrong]) {
    const { code, stdout, stderr } = await ingest(publication, { env: { ...env, INGEST_KEY } })
    t.match({ code, stdout, stderr }, { code: 4, stdout: /^$/, stderr: /^ingest: .*INGEST_KEY.*\n$/ })
    if (INGEST_KEY !== '') t.notMatch(stderr, INGEST_KEY)
  }
  const { INGEST_KEY, ...withoutKey } = env
  const file = fileOf(Buffer.from(`${INGEST_KEY}\n`), 'key')
  t.match(await ingest([...publication, '--key-file', file], { env: withoutKey }), { code: 0 })
  t.match(await ingest([...publication, '--key-file', fileOf(Buffer.from('\n'), 'empty')], { env }), { code: 4 })
})

t.test('what cannot be a map, or is too large: exit 5', async (t) => {
  t.match(await publish(smallFile, 'b'.repeat(129)), { code: 5, stdout: /^$/, stderr: /^ingest: .*\n$/ })
  const narrow = await startServe(t, ['--data', data, '--publication-limit', '1K'])
  t.match(await publish(fileOf(mapOf(5 * megabyte)), 'large-3', '--url', narrow.url), {
    code: 5,
    stdout: /^$/,
    stderr: /^ingest: .*1024 bytes.*\n$/,
  })
})

t.test('nobody there: exit 6, and it says to run it again', async (t) => {
  const args = ['--url', 'http://127.0.0.1:1', '--retries', '1']
  t.match(await publish(smallFile, 'b', ...args), {
    code: 6,
    stdout: /^$/,
    stderr: /^ingest: .*\. Run it again: .*\n$/,
  })
  t.match(await publishJson(smallFile, 'b', ...args), {
    code: 6,
    result: { ok: false, error: { code: 'connection-failed', retryable: true } },
  })
})

t.test('a url that leads to something else: exit 2', async (t) => {
  for (const status of [200, 301, 404, 405]) {
    const other = createServer((req, res) => {
      req.resume().on('end', () => res.writeHead(status, { 'Content-Type': 'text/html' }).end('<h1>Hello</h1>'))
    })
    await once(other.listen(0, '127.0.0.1'), 'listening')
    const { port } = other.address() as AddressInfo
    t.match(await publish(smallFile, 'b', '--url', `http://127.0.0.1:${port}`), { code: 2, stdout: /^$/ }, `${status}`)
    other.close()
  }
  t.match(await publish(smallFile, 'b', '--url', `${server.url}/ingest`), {
    code: 2,
    stdout: /^$/,
    stderr: /\/ingest knows no such request/,
  })
})

/** Calls `then` when so many chunks have come to the server, and holds back those that come later until it is done. */
function afterChunks(wanted: number, then: () => Promise<void> | void) {
  let chunks = 0
  let done: Promise<void> | void
  return async ({ url = '' }: { url?: string | undefined }) => {
    if (!url.startsWith('/v1/maps/chunks')) return
    if (++chunks === wanted) done = then()
    await done
  }
}

t.test('a file that changes while it is uploaded: exit 7, and nothing is published', async (t) => {
  const file = fileOf(mapOf(3 * megabyte, { seed: 6 }))
  const url = await startProxy(
    t,
    () => server.url,
    afterChunks(2, () => writeFileSync(file, mapOf(3 * megabyte, { seed: 7 }))),
  )
  t.match(await publishJson(file, 'changed', '--url', url, '--concurrency', '1'), {
    code: 7,
    result: { ok: false, error: { code: 'source-changed' } },
  })
  t.match(await ingest(['maps', 'verify', '--place', '1', '--build', 'changed'], { env }), { code: 3 })
})

for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const) {
  t.test(`${signal} in the middle: exit ${code}, and run again it goes on from there`, async (t) => {
    const map = mapOf(3 * megabyte, { seed: code })
    const file = fileOf(map)
    const build = `ended-by-${signal}`
    const url = await startProxy(
      t,
      () => server.url,
      afterChunks(4, () => void child.kill(signal)),
    )
    const args = ['publish-map', file, '--place', '1', '--build', build, '--json', '--concurrency', '1']
    const child = startIngest([...args, '--url', url], { env })
    const end = await ended(child)
    t.match(end, { code, signal: null, stderr: new RegExp(`ingest: ${signal}: .*run it again`) })
    t.match(JSON.parse(end.stdout), { ok: false, error: { code: 'interrupted', retryable: true } })
    t.match(await ingest(['maps', 'show', '--place', '1', '--build', build, '--json'], { env }), {
      code: 0,
      stdout: /"state":"incomplete"/,
    })
    const again = await publishJson(file, build)
    t.match(again, { code: 0, result: { ok: true, outcome: 'created' } })
    t.ok(again.result.uploadedChunks < again.result.chunks, 'what was there is not sent again')
    t.equal(await contentOf(build), map.toString())
  })
}

t.test('a signal ends waiting for standard input', async (t) => {
  const args = ['publish-map', '-', '--place', '1', '--build', 'waiting']
  const [command = '', ...rest] = ingestCommand(args)
  const temporary = t.testdir()
  const child = spawn(command, rest, {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...ownEnvironment(), ...env, TMPDIR: temporary },
  })
  // once something of it is put aside, it listens to signals
  child.stdin.on('error', () => {}).write('{')
  while (readdirSync(temporary).length === 0) await delay(10)
  child.kill('SIGTERM')
  const [code] = await once(child, 'exit')
  t.equal(code, 143)
  t.strictSame(readdirSync(temporary), [], 'and what was put aside is gone')
})

const killedMap = mapOf(4 * megabyte, { seed: 8 })
const killedArgs = ['--place', '1', '--build', 'killed']

t.test('a server that is killed in the middle and starts again: the same run goes on', async (t) => {
  const { env } = await openKilled(t, (kill) => afterChunks(5, kill), { restart: true })
  const { code, stdout } = await ingest(['publish-map', fileOf(killedMap), ...killedArgs, '--json'], { env })
  t.equal(code, 0)
  t.match(JSON.parse(stdout), { ok: true, outcome: 'created', digest: digestOf(killedMap) })
  t.match(await ingest(['maps', 'verify', ...killedArgs], { env }), { code: 0 })
})

t.test('a server that is killed and stays away: exit 6, and run again it goes on', async (t) => {
  const { restarted, env } = await openKilled(t, (kill) => afterChunks(5, kill), { restart: false })
  const args = ['publish-map', fileOf(killedMap), ...killedArgs, '--json']
  const first = await ingest([...args, '--retries', '1', '--concurrency', '1'], { env })
  t.equal(first.code, 6)
  t.match(JSON.parse(first.stdout), { ok: false, error: { code: 'connection-failed', retryable: true } })
  await restarted()
  const { code, stdout } = await ingest(args, { env })
  t.equal(code, 0)
  const { chunks, uploadedChunks } = JSON.parse(stdout)
  t.ok(uploadedChunks < chunks, `${uploadedChunks} of ${chunks}`)
  t.match(await ingest(['maps', 'verify', ...killedArgs], { env }), { code: 0 })
})

t.test('--data publishes straight into a store, also beside a server', async (t) => {
  const file = fileOf(mapOf(2 * megabyte, { seed: 9 }))
  const own = { env: { INGEST_DATA: data, INGEST_PROJECT_ID: projectId } }
  const args = ['publish-map', file, '--place', '1', '--build', 'direct', '--json']
  const { code, stdout, stderr } = await ingest(args, own)
  t.match({ code, stderr }, { code: 0, stderr: /^ingest: uploading [^\n]*\n$/ })
  t.match(JSON.parse(stdout), { ok: true, outcome: 'created' })
  t.match(await publishJson(file, 'direct'), { code: 0, result: { outcome: 'unchanged', uploadedChunks: 0 } })
  await freeze('direct')
  t.match(await ingest(['publish-map', smallFile, ...args.slice(2)], own), { code: 3 })
  const missing = ['publish-map', smallFile, '--place', '1', '--build', 'b', '--data', join(directory, 'none')]
  await isWrongUse(t, missing, /There is no store in/, { env: { INGEST_PROJECT_ID: projectId } })
})

t.test('the environment has both: the option wins', async (t) => {
  const both = { env: { ...env, INGEST_URL: 'http://127.0.0.1:1', INGEST_DATA: join(directory, 'none') } }
  const args = ['publish-map', smallFile, '--place', '1', '--build', 'both']
  t.match(await ingest([...args, '--url', server.url], both), { code: 0, stdout: /^created / })
  t.match(await ingest([...args, '--data', data], both), { code: 0, stdout: /^unchanged / })
  await isWrongUse(t, args, /and not both/, both)
})
