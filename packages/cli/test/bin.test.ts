import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { ended, ingestCommand, ownEnvironment, spawnIngest, startIngest, startServe } from './ingest-process.ts'
import { createKey, linesOf, projectId, send } from './served.ts'

// that each command of the built binary starts and writes, and that its exit code reaches the shell; what it does is
// tested in the process of the tests

const directory = t.testdir({ 'map.json': '{}', 'events.ndjson': linesOf('e', 2).join('\n'), 'bad.ndjson': '{}' })
const data = join(directory, 'data')
const store = ['--data', data, '--project', projectId]
const map = ['--place', '1', '--build', 'b']

t.test('each command starts, writes and ends with its exit code', async (t) => {
  const key = (await spawnIngest(['keys', 'create', ...store])).stdout.trim()
  t.match(key, /^ik_/)
  const commands: [args: string[], code: number, stdout: RegExp][] = [
    [['keys', 'list', ...store], 0, /^KEY /],
    [['send', join(directory, 'events.ndjson'), ...store], 0, /^sent 2 events: /],
    [['check', join(directory, 'bad.ndjson'), '--project', projectId], 5, /^checked 1 event of game-1: /],
    [['export', ...store], 0, /^\{"cursor":.*\n\{"cursor":.*\n$/],
    [['find', 'e-0', ...store], 0, /^received {2}/],
    [['find', 'none', ...store], 3, /^$/],
    [['stats', ...store], 0, /^PROJECT /],
    [['publish-map', join(directory, 'map.json'), ...map, ...store], 0, /^created /],
    [['maps', 'list', ...store], 0, /^PLACE /],
    [['maps', 'show', ...map, ...store], 0, /^place /],
    [['maps', 'download', ...map, ...store], 0, /^\{\}$/],
    [['maps', 'verify', ...map, ...store], 0, /^verified /],
    [['keys', 'rotate', key.slice(3, 11), ...store], 0, /^ik_/],
    [['keys', 'revoke', key.slice(3, 11), ...store], 0, /^revoked /],
    [['completion', 'bash'], 0, /^# completion/],
    [['export', ...store, '--url', 'http://127.0.0.1:1'], 2, /^$/],
    [['export', '--url', 'http://127.0.0.1:1', '--project', projectId], 4, /^$/],
  ]
  for (const [args, code, stdout] of commands) t.match(await spawnIngest(args), { code, stdout }, args.join(' '))
  const tail = startIngest(['tail', ...store, '--since', '1h'])
  const exited = ended(tail)
  tail.stdout.once('data', () => tail.kill('SIGINT'))
  t.match(await exited, { code: 130, signal: null, stdout: /"eventId":"e-0"/ })
  const server = await startServe(t, ['--data', data])
  t.equal((await send({ ...server, key: await createKey(data) }, ['a'])).status, 202)
  server.signal('SIGTERM')
  t.match(await server.exited, { code: 0 })
})

/** A hook that writes the address of every module that a process loads to stderr. */
const hooks = `import { writeSync } from 'node:fs'
export async function load(url, context, next) { writeSync(2, 'loads ' + url + '\\n'); return next(url, context) }`
const dataUrl = (source: string) => `data:text/javascript,${encodeURIComponent(source)}`
const register = dataUrl(`import { register } from 'node:module'; register(${JSON.stringify(dataUrl(hooks))})`)

t.test('help and wrong use load nothing that is slow to load', async (t) => {
  const loadedBy = (...args: string[]) => {
    const [node = '', ...rest] = ingestCommand(args).slice(-2 - args.length)
    const { stderr } = spawnSync(node, ['--import', register, ...rest], { env: ownEnvironment(), encoding: 'utf8' })
    return stderr
      .split('\n')
      .filter((line) => /^loads .*(typebox|undici|lmdb|pino|parquet|packages\/(core|client|server)\/)/.test(line))
  }
  for (const args of [['--help'], ['serve', '--help'], ['--version'], ['serv'], ['send'], ['completion', '--', 'k']]) {
    t.strictSame(loadedBy(...args), [], args.join(' '))
  }
  t.match(loadedBy('keys', 'list', ...store).join('\n'), /lmdb/, 'which this test would notice')
})

t.test('an older Node gets one line, and no stack', async (t) => {
  // a copy whose build is a marker, run with the version of another Node
  const copy = t.testdir({ 'package.json': '{"type":"module"}', dist: { 'bin.js': 'console.log("runs")' } })
  mkdirSync(join(copy, 'bin'))
  copyFileSync(fileURLToPath(new URL('../bin/ingest.js', import.meta.url)), join(copy, 'bin', 'ingest.js'))
  const run = (version: string) => {
    const fake = dataUrl(
      `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } })`,
    )
    const args = ['--import', fake, join(copy, 'bin', 'ingest.js')]
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { env: ownEnvironment(), encoding: 'utf8' })
    return { status, stdout, stderr }
  }
  for (const version of ['12.22.12', '18.20.8', '20.18.3']) {
    const stderr = `ingest: Node 20.19 or newer is needed, and this is ${version}: see https://nodejs.org\n`
    t.strictSame(run(version), { status: 2, stdout: '', stderr }, version)
  }
  for (const version of ['20.19.0', '22.0.0', '100.1.0']) {
    t.strictSame(run(version), { status: 0, stdout: 'runs\n', stderr: '' }, version)
  }
})
