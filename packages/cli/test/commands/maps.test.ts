import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { ingestCommand, ownEnvironment, spawnIngest } from '../ingest-process.ts'
import { ingest, isWrongUsage, startRun } from '../run-ingest.ts'
import { openServed, startProxy } from '../served.ts'

/** A map of about that many bytes, the same for the same seed. `moved` is the number of a part in another position. */
function mapOf(bytes: number, { seed = 1, moved = -1 } = {}): Buffer {
  // Lehmer's generator with the constants of Park and Miller
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
const megabyte = 1_000_000
let count = 0

/** Writes a file, and returns its path. */
function fileOf(bytes: Buffer, name = `${++count}.json`): string {
  const path = join(directory, name)
  writeFileSync(path, bytes)
  return path
}

const { env, url } = await openServed(t)

async function publishJson(file: string, build: string, ...args: string[]) {
  const command = ['publish-map', file, '--place', '1', '--build', build, '--json', ...args]
  const { code, stdout } = await ingest(command, { env })
  t.match(stdout, /^\{.*\}\n$/, 'one object')
  return { code, result: JSON.parse(stdout) }
}

const ofBuild = (command: string, build: string, ...args: string[]) =>
  ingest(['maps', command, '--place', '1', '--build', build, ...args], { env })
const contentOf = async (build: string) => (await ofBuild('download', build)).stdout

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

t.test('the URL of another service: exit code 2', async (t) => {
  const file = fileOf(mapOf(20_000))
  for (const status of [200, 301, 404, 405]) {
    const other = createServer((req, res) => {
      req.resume().on('end', () => res.writeHead(status, { 'Content-Type': 'text/html' }).end('<h1>Hello</h1>'))
    })
    await once(other.listen(0, '127.0.0.1'), 'listening')
    const { port } = other.address() as AddressInfo
    const { code, result } = await publishJson(file, 'b', '--url', `http://127.0.0.1:${port}`)
    t.match({ code, result }, { code: 2, result: { ok: false } }, `${status}`)
    other.close()
  }
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
  // the command listens for signals once it spools
  child.stdin.on('error', () => {}).write('{')
  while (readdirSync(temporary).length === 0) await delay(10)
  child.kill('SIGTERM')
  const [code] = await once(child, 'exit')
  t.equal(code, 143)
  t.strictSame(readdirSync(temporary), [], 'the spooled part is removed')
})

t.test('a failed download does not change an existing file, and leaves no other', async (t) => {
  await publishJson(fileOf(mapOf(20_000)), 'lines')
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
