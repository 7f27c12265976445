import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import t from 'tap'
import {
  ended,
  ingestCommand,
  ownEnvironment,
  spawnIngest,
  startCommand,
  startIngest,
  startServe,
} from './ingest-process.ts'
import { idsOf, linesOf, projectId, send, submitIds, withStore } from './served.ts'

// tests that need a process of their own; the tests of commands run in this process

const directory = t.testdir({ 'events.ndjson': linesOf('e', 2).join('\n'), 'bad.ndjson': '{}' })
const data = join(directory, 'data')
const store = ['--store', data, '--project', projectId]

t.test('the built command writes, and ends with its exit code or by its signal', async (t) => {
  const created = await spawnIngest(['keys', 'create', ...store])
  t.match(created, { code: 0, stdout: /^ik_\w+\n$/ })
  const commands: [args: string[], code: number, stdout: RegExp][] = [
    [['send', join(directory, 'events.ndjson'), ...store], 0, /^sent 2 events: /],
    [['send', join(directory, 'bad.ndjson'), '--dry-run', '--project', projectId], 5, /^validated 1 event: /],
    [['find', 'none', ...store], 3, /^$/],
  ]
  for (const [args, code, stdout] of commands) t.match(await spawnIngest(args), { code, stdout }, args.join(' '))
  const tail = startIngest(['tail', ...store, '--since', '1h'])
  const exited = ended(tail)
  tail.stdout.once('data', () => tail.kill('SIGINT'))
  t.match(await exited, { code: 130, signal: null, stdout: /"eventId":"e-0"/ })
  const server = await startServe(t, ['--store', data])
  t.equal((await send({ ...server, key: created.stdout.trim() }, ['a'])).status, 202)
  server.signal('SIGTERM')
  t.match(await server.exited, { code: 0, signal: null })
})

/** A hook that writes the URL of every loaded module to stderr. */
const hooks = `import { writeSync } from 'node:fs'
export async function load(url, context, next) { writeSync(2, 'loads ' + url + '\\n'); return next(url, context) }`
const dataUrl = (source: string) => `data:text/javascript,${encodeURIComponent(source)}`
const register = dataUrl(`import { register } from 'node:module'; register(${JSON.stringify(dataUrl(hooks))})`)

t.test('help and wrong usage do not load slow modules', async (t) => {
  const loadedBy = (...args: string[]) => {
    const [node = '', ...rest] = ingestCommand(args).slice(-2 - args.length)
    const { stderr } = spawnSync(node, ['--import', register, ...rest], {
      env: { ...ownEnvironment(), INGEST_ADMIN_TOKEN: 'short' },
      encoding: 'utf8',
    })
    return stderr
      .split('\n')
      .filter((line) =>
        /^loads .*(typebox|undici|lmdb|pino|parquet|node_modules\/pg\/|packages\/(console|client|server|postgres)\/)/.test(
          line,
        ),
      )
  }
  for (const args of [['serve', '--help'], ['send']]) {
    t.strictSame(loadedBy(...args), [], args.join(' '))
  }
  const loaded = loadedBy('keys', 'list', ...store).join('\n')
  t.match(loaded, /lmdb/, 'the check notices them')
  t.notMatch(loaded, /packages\/postgres|node_modules\/pg\//, 'a directory needs no driver of databases')
  // a token that is too short ends the server at its start
  const serve = ['serve', ...store.slice(0, 2), '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0']
  t.notMatch(loadedBy(...serve).join('\n'), /packages\/console/, 'there is no console unless it is asked for')
  t.match(loadedBy(...serve, '--console').join('\n'), /packages\/console/)
  const database = loadedBy('stats', '--store', 'postgres://127.0.0.1:1/games').join('\n')
  t.match(database, /node_modules\/pg\//)
  t.notMatch(database, /lmdb/, 'a database needs no LMDB')
})

t.test('an unsupported Node gets one line, and no stack', async (t) => {
  // a copy with a stub of the build, run with a faked version of Node
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
  for (const version of ['12.22.12', '20.18.3']) {
    const stderr = `ingest: Node 20.19 or newer is needed, and this is ${version}: see https://nodejs.org\n`
    t.strictSame(run(version), { status: 2, stdout: '', stderr }, version)
  }
  for (const version of ['20.19.0', '100.1.0']) {
    t.strictSame(run(version), { status: 0, stdout: 'runs\n', stderr: '' }, version)
  }
})

const eventCount = 2000

/** A store with more events than fit into a pipe. */
async function openFilled(): Promise<string[]> {
  const data = join(directory, 'filled')
  await withStore(data, (project) => submitIds(project, idsOf('e', eventCount), 'x'.repeat(1000)))
  return ['--store', data, '--project', projectId]
}

const filled = await openFilled()

t.test('a command that can never settle does not exit with code 0', async (t) => {
  const preload = join(t.testdir({ 'preload.mjs': 'process.stdout.write = () => true' }), 'preload.mjs')
  const command = ingestCommand(['stats', ...filled])
  command.splice(command.indexOf(process.execPath) + 1, 0, `--import=${pathToFileURL(preload)}`)
  t.match(await ended(startCommand(command, ownEnvironment())), {
    code: 1,
    stderr: /^ingest: the command has ended without a result: please report it\n$/,
  })
})

t.test(
  'output larger than a pipe is complete; a reader that closes it ends the command with exit code 0',
  async (t) => {
    const { code, stdout, stderr } = await spawnIngest(['export', ...filled])
    t.match({ code, stderr }, { code: 0, stderr: /^$/ })
    t.equal(stdout.split('\n').length, eventCount + 1)
    for (const readBytes of [0, 500_000]) {
      const { code, signal, stderr } = await spawnIngest(['export', ...filled], { readBytes })
      t.strictSame({ code, signal, stderr }, { code: 0, signal: null, stderr: '' })
    }
  },
)

const noProc = !existsSync('/proc/self') && 'there is no /proc'
t.test(
  'a directory that cannot be created is wrong usage, below /proc and behind a link too',
  { skip: noProc },
  async (t) => {
    const directory = t.testdir({ nowhere: t.fixture('symlink', 'not-mounted') })
    const nowhere = join(directory, 'nowhere')
    const [store, exported] = [filled.slice(0, 2), ['export', ...filled, '--output']]
    for (const args of [
      ['backup', ...store, join(nowhere, 'b')],
      ['backup', ...store, nowhere],
      ['backup', ...store, '/proc/x'],
      ['restore', store[1] as string, '--store', join(nowhere, 'b')],
      ['restore', store[1] as string, '--store', '/proc/x'],
      ['repair', ...store, '--to', nowhere],
      ['stats', '--store', '/proc/x'],
      ['keys', 'create', '--project', 'p', '--store', '/proc/x/y'],
      ['keys', 'create', '--project', 'p', '--store', nowhere],
      [...exported, '/proc/x'],
      [...exported, join(nowhere, 'b')],
      [...exported, nowhere],
      [...exported, join(directory, 'out'), '--cursor-file', '/proc/x/cursor.json'],
    ]) {
      // Node's recursive mkdir never returns below /proc, and ignores signals
      const command = ['timeout', '-s', 'KILL', '30', ...ingestCommand(args)]
      const { code, stdout, stderr } = await ended(startCommand(command, ownEnvironment()))
      t.match({ code, stdout, stderr }, { code: 2, stdout: /^$/, stderr: /^ingest: [^\n]*\n$/ }, args.join(' '))
      t.notMatch(stderr, / at \S+:\d+/, 'no stack')
    }
    t.strictSame(readdirSync(directory).sort(), ['nowhere', 'out'])
  },
)

const noFull = !existsSync('/dev/full') && 'there is no /dev/full'
t.test('a full disk behind standard output: exit code 6', { skip: noFull }, async (t) => {
  for (const args of [['export'], ['stats', '--json']]) {
    const command = ['sh', '-c', '"$0" "$@" > /dev/full', ...ingestCommand([...args, ...filled])]
    const { code, stderr } = await ended(startCommand(command, ownEnvironment()))
    t.match({ code, stderr }, { code: 6, stderr: /^ingest: standard output cannot be written: the disk is full\n$/ })
  }
})
