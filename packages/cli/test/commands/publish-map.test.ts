import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { ingestCommand, ownEnvironment, startServe } from '../ingest-process.ts'
import { digestOf, mapOf } from '../map-parts.ts'
import { ingest, isWrongUsage, startRun } from '../run-ingest.ts'
import { createKey, openRestarted, projectId, send, startProxy } from '../served.ts'

const directory = t.testdir()
const data = join(directory, 'data')
const key = await createKey(data)
const server = await startServe(t, ['--store', data, '--rate-limit', 'off'])
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

t.test('a map is created, and a second run reports it as unchanged', async (t) => {
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

t.test('--json prints one object, and --quiet nothing', async (t) => {
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

t.test('a map with one changed part sends only a few chunks, and downloads byte for byte', async (t) => {
  const first = mapOf(10 * megabyte)
  const moved = mapOf(10 * megabyte, { moved: 50_000 })
  t.not(digestOf(first), digestOf(moved))
  const whole = await publishJson(fileOf(first), 'large')
  t.match(whole, { code: 0, result: { outcome: 'created', uploadedBytes: first.length } })
  const file = fileOf(moved)
  const part = await publishJson(file, 'large-2')
  t.match(part, { code: 0, result: { outcome: 'created', size: moved.length } })
  t.ok(part.result.uploadedBytes < moved.length / 10, String(part.result.uploadedBytes))
  const output = join(directory, 'download')
  const map = ['--place', '1', '--build', 'large-2']
  t.match(await ingest(['maps', 'download', ...map, '--output', output], { env }), { code: 0, stderr: /^$/ })
  t.ok(readFileSync(output).equals(moved))
  t.match(await ingest(['maps', 'verify', ...map, '--file', file], { env }), { code: 0, stderr: /^$/ })
})

t.test('standard input is published, and the content type depends on the file name', async (t) => {
  const args = ['publish-map', '-', '--place', '1', '--build', 'stdin', '--json']
  const { code, stdout } = await ingest(args, { env, stdin: small.toString() })
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

t.test('a frozen build: the same map is unchanged, a different map is refused', async (t) => {
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

t.test('the first map of a frozen build is accepted', async (t) => {
  await freeze('late')
  t.match(await publishJson(smallFile, 'late'), { code: 0, result: { outcome: 'created', frozen: true } })
  t.match(await publish(fileOf(mapOf(20_000, { seed: 3 })), 'late'), { code: 3 })
})

t.test('an empty file is refused without --allow-empty', async (t) => {
  const empty = fileOf(Buffer.alloc(0))
  t.match(await publish(empty, 'empty'), {
    code: 5,
    stdout: /^$/,
    stderr: /^ingest: The map is empty.*--allow-empty.*\n$/,
  })
  t.match(await publish(empty, 'empty', '--allow-empty'), { code: 0, stdout: /^created .* 0 bytes/ })
})

t.test('--if-absent and --expect are preconditions', async (t) => {
  const other = fileOf(mapOf(20_000, { seed: 4 }))
  t.match(await publish(smallFile, 'conditions', '--if-absent'), { code: 0 })
  t.match(await publish(smallFile, 'conditions', '--if-absent'), { code: 0, stdout: /^unchanged / })
  t.match(await publish(other, 'conditions', '--if-absent'), { code: 3, stdout: /^$/, stderr: /^ingest: .*\n$/ })
  t.match(await publish(other, 'conditions', '--expect', digestOf(Buffer.from('else'))), { code: 3 })
  t.equal(await contentOf('conditions'), small.toString())
  t.match(await publish(other, 'conditions', '--expect', digestOf(small)), { code: 0, stdout: /^replaced / })
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
  t.match(await ingest(['maps', 'show', '--place', '1', '--build', 'dry'], { env }), { code: 3 })
  t.match(await publish(smallFile, 'frozen', '--dry-run'), { code: 0, stdout: /^dry run: unchanged: / })
  t.match(await publish(file, 'frozen', '--dry-run'), { code: 3 })
})

t.test('wrong usage', async (t) => {
  const publication = ['publish-map', smallFile, '--place', '1', '--build', 'b']
  const settings = { env }
  await isWrongUsage(t, ['publish-map', ...publication.slice(2)], /missing required argument 'file'/, settings)
  await isWrongUsage(
    t,
    ['publish-map', smallFile, '--build', 'b'],
    /required option '--place <id>' not specified/,
    settings,
  )
  await isWrongUsage(
    t,
    ['publish-map', smallFile, '--place', '1'],
    /required option '--build <id>' not specified/,
    settings,
  )
  await isWrongUsage(t, publication, /--project <id>/)
  await isWrongUsage(t, [...publication, '--project', 'p'], /name a server with --url/)
  await isWrongUsage(t, [...publication, '--url', 'http://x', '--store', data], /, not both/, settings)
  await isWrongUsage(t, [...publication, '--url', 'ftp://x'], /url must be the address of the server/, settings)
  await isWrongUsage(t, ['publish-map', `${smallFile}.not`, ...publication.slice(2)], /cannot be read/, settings)
  await isWrongUsage(t, ['publish-map', directory, ...publication.slice(2)], /is a directory/, settings)
  await isWrongUsage(t, [...publication, '--expect', 'abc'], /--expect expects a digest/, settings)
  await isWrongUsage(t, [...publication, '--if-absent', '--expect', digestOf(small)], /cannot be used with/, settings)
  await isWrongUsage(t, [...publication, '--on-frozen', 'ignore'], /Allowed choices are fail, warn/, settings)
  await isWrongUsage(t, [...publication, '--key-file', `${smallFile}.not`], /key file cannot be read/, settings)
  for (const concurrency of ['0', '17', 'x']) {
    await isWrongUsage(t, [...publication, '--concurrency', concurrency], /integer from 1 to 16/, settings)
  }
  t.match(await publishJson(`${smallFile}.not`, 'b'), { code: 2, result: { error: { code: 'invalid-argument' } } })
  t.match(await publishJson(smallFile, 'b', '--on-frozen', 'ignore'), {
    code: 2,
    result: { ok: false, error: { code: 'invalid-argument', message: /Allowed choices/, retryable: false } },
  })
})

t.test('a key on the command line is refused, and not printed', async (t) => {
  const publication = ['publish-map', smallFile, '--place', '1', '--build', 'b', '--json']
  for (const args of [['--key', key], [`--key=${key}`]]) {
    const { code, stdout, stderr } = await ingest([...publication, ...args], { env })
    t.match({ code, stderr }, { code: 2, stderr: /^ingest: a key on the command line is visible.*INGEST_KEY.*\n$/ })
    t.match(JSON.parse(stdout), { ok: false, error: { code: 'invalid-argument' } })
    t.notMatch(stdout + stderr, key)
  }
})

t.test('invalid credentials: exit code 4', async (t) => {
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

t.test('an invalid publication: exit code 5', async (t) => {
  t.match(await publish(smallFile, 'b'.repeat(129)), { code: 5, stdout: /^$/, stderr: /^ingest: .*\n$/ })
})

t.test('an unreachable server: exit code 6, and advice to run it again', async (t) => {
  const args = ['--url', 'http://127.0.0.1:1', '--retries', '1']
  t.match(await publish(smallFile, 'b', ...args), {
    code: 6,
    stdout: /^$/,
    stderr: /^ingest: .*\. Run it again to resume\.\n$/,
  })
  t.match(await publishJson(smallFile, 'b', ...args), {
    code: 6,
    result: { ok: false, error: { code: 'connection-failed', retryable: true } },
  })
})

t.test('the URL of another service: exit code 2', async (t) => {
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
    stderr: /\/ingest does not serve this request/,
  })
})

/** Calls `then` at this chunk upload, and delays later ones until it is done. */
function afterChunks(wanted: number, then: () => Promise<void> | void) {
  let chunks = 0
  let done: Promise<void> | void
  return async ({ url = '' }: { url?: string | undefined }) => {
    if (!url.startsWith('/v1/maps/chunks')) return
    if (++chunks === wanted) done = then()
    await done
  }
}

t.test('a file that changes during the upload: exit code 7, and nothing is published', async (t) => {
  const file = fileOf(mapOf(2 * megabyte, { seed: 6 }))
  const { url } = await startProxy(
    t,
    () => server.url,
    afterChunks(2, () => writeFileSync(file, mapOf(2 * megabyte, { seed: 7 }))),
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
  t.test(`${signal} while uploading: exit code ${code}, and the next run resumes`, async (t) => {
    const map = mapOf(2 * megabyte, { seed: code })
    const file = fileOf(map)
    const build = `ended-by-${signal}`
    const { url } = await startProxy(
      t,
      () => server.url,
      afterChunks(4, () => running.signal(signal)),
    )
    const args = ['publish-map', file, '--place', '1', '--build', build, '--json', '--concurrency', '1']
    const running = startRun([...args, '--url', url], { env })
    const end = await running.exited
    t.match(end, { code, stderr: new RegExp(`ingest: ${signal}: .*run it again to resume`) })
    t.match(JSON.parse(end.stdout), { ok: false, error: { code: 'interrupted', retryable: true } })
    t.match(await ingest(['maps', 'show', '--place', '1', '--build', build, '--json'], { env }), {
      code: 0,
      stdout: /"state":"incomplete"/,
    })
    const again = await publishJson(file, build)
    t.match(again, { code: 0, result: { ok: true, outcome: 'created' } })
    t.ok(again.result.uploadedChunks < again.result.chunks, 'stored chunks are not sent again')
    t.equal(await contentOf(build), map.toString())
  })
}

t.test('SIGTERM ends the built command while it waits for standard input', async (t) => {
  const args = ['publish-map', '-', '--place', '1', '--build', 'waiting']
  const [command = '', ...rest] = ingestCommand(args)
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

const killedMap = mapOf(2 * megabyte, { seed: 8 })
const killedArgs = ['--place', '1', '--build', 'killed']

t.test('a server that is killed and restarted during an upload: the same run completes it', async (t) => {
  const { env } = await openRestarted(t, (restart) => afterChunks(5, restart))
  const { code, stdout } = await ingest(['publish-map', fileOf(killedMap), ...killedArgs, '--json'], { env })
  t.equal(code, 0)
  t.match(JSON.parse(stdout), { ok: true, outcome: 'created', digest: digestOf(killedMap) })
  t.match(await ingest(['maps', 'verify', ...killedArgs], { env }), { code: 0 })
})

t.test('a server that stays unreachable: exit code 6, and the next run resumes', async (t) => {
  const proxy = await startProxy(
    t,
    () => server.url,
    afterChunks(5, () => {
      proxy.isDown = true
    }),
  )
  const args = ['publish-map', fileOf(killedMap), ...killedArgs, '--json', '--url', proxy.url]
  const first = await ingest([...args, '--retries', '1', '--concurrency', '1'], { env })
  t.equal(first.code, 6)
  t.match(JSON.parse(first.stdout), { ok: false, error: { code: 'connection-failed', retryable: true } })
  proxy.isDown = false
  const { code, stdout } = await ingest(args, { env })
  t.equal(code, 0)
  const { chunks, uploadedChunks } = JSON.parse(stdout)
  t.ok(uploadedChunks < chunks, `${uploadedChunks} of ${chunks}`)
  t.match(await ingest(['maps', 'verify', ...killedArgs], { env }), { code: 0 })
})

t.test('--store publishes to a store directly, also while a server has it open', async (t) => {
  const file = fileOf(mapOf(2 * megabyte, { seed: 9 }))
  const own = { env: { INGEST_STORE: data, INGEST_PROJECT_ID: projectId } }
  const args = ['publish-map', file, '--place', '1', '--build', 'direct', '--json']
  const { code, stdout, stderr } = await ingest(args, own)
  t.match({ code, stderr }, { code: 0, stderr: /^ingest: uploading [^\n]*\n$/ })
  t.match(JSON.parse(stdout), { ok: true, outcome: 'created' })
  t.match(await publishJson(file, 'direct'), { code: 0, result: { outcome: 'unchanged', uploadedChunks: 0 } })
  await freeze('direct')
  t.match(await ingest(['publish-map', smallFile, ...args.slice(2)], own), { code: 3 })
  const missing = ['publish-map', smallFile, '--place', '1', '--build', 'b', '--store', join(directory, 'none')]
  await isWrongUsage(t, missing, /There is no store in/, { env: { INGEST_PROJECT_ID: projectId } })
})

t.test('an option overrides INGEST_URL and INGEST_STORE', async (t) => {
  const both = { env: { ...env, INGEST_URL: 'http://127.0.0.1:1', INGEST_STORE: join(directory, 'none') } }
  const args = ['publish-map', smallFile, '--place', '1', '--build', 'both']
  t.match(await ingest([...args, '--url', server.url], both), { code: 0, stdout: /^created / })
  t.match(await ingest([...args, '--store', data], both), { code: 0, stdout: /^unchanged / })
  await isWrongUsage(t, args, /, not both/, both)
})
