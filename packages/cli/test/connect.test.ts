import { join } from 'node:path'
import { Command } from 'commander'
import t from 'tap'
import { addTargetOptions, connect, parseTarget, type Target } from '../src/connect.ts'
import { applySettings } from '../src/settings.ts'
import { createIo } from './run-ingest.ts'

/** Parses a command line with its own environment. */
function parse(args: string[], env: Record<string, string> = {}) {
  const command = addTargetOptions(new Command('maps'))
    .exitOverride()
    .configureOutput({ outputError() {} })
  let target: Target | undefined
  command.action(() => {
    target = parseTarget(command)
  })
  applySettings(command, env)
  command.parse(['--project', 'p', ...args], { from: 'user' })
  return target as Target
}

const url = 'http://localhost'
const database = 'postgres://ingest@localhost/games'

t.test('a target is a server or a store', async (t) => {
  t.match(parse(['--url', url]), { url, project: 'p', retries: 4, timeout: 120_000 })
  t.match(parse(['--data', 'd']), { store: 'd' })
  t.match(parse(['--store', 'd']), { store: 'd' })
  t.match(parse(['--store', database]), { store: database })
  t.match(parse([], { INGEST_URL: url }), { url })
  t.match(parse(['--timeout', '5s', '--retries', '0'], { INGEST_DATA: 'd' }), { store: 'd', retries: 0, timeout: 5000 })
  t.match(parse([], { INGEST_STORE: database }), { store: database })
})

t.test('an option overrides the environment', async (t) => {
  t.strictSame(parse(['--url', url], { INGEST_DATA: 'd', INGEST_STORE: 'e' }).store, undefined)
  t.match(parse(['--data', 'd'], { INGEST_URL: url, INGEST_STORE: 'e' }), { url: undefined, store: 'd' })
  t.match(parse(['--store', 'e'], { INGEST_URL: url, INGEST_DATA: 'd' }), { url: undefined, store: 'e' })
})

t.test('an empty variable counts as unset', async (t) => {
  t.match(parse(['--data', 'd'], { INGEST_URL: '', INGEST_STORE: '' }), { store: 'd', url: undefined })
  t.match(parse(['--url', url], { INGEST_DATA: '' }), { url, store: undefined })
  t.throws(() => parse([], { INGEST_URL: '' }), { message: /^missing --url/ })
})

t.test('none of --url, --data and --store, or several, is wrong usage', async (t) => {
  const options =
    '--url <url> \\(or INGEST_URL\\) or --data <dir> \\(or INGEST_DATA\\) or --store <store> \\(or INGEST_STORE\\)'
  t.throws(() => parse([]), { message: new RegExp(`^missing ${options}:`) })
  t.throws(() => parse(['--url', url, '--data', 'd']), { message: /only one server or store: --url or --data$/ })
  t.throws(() => parse(['--store', 'e', '--data', 'd']), { message: /: --data or --store$/ })
  t.throws(() => parse(['--store', 'e', '--data', 'd'], { INGEST_URL: url }), { message: /: --data or --store$/ })
  const env = { INGEST_URL: url, INGEST_DATA: 'd' }
  t.throws(() => parse([], env), { message: /: INGEST_URL and INGEST_DATA are set, use --url or --data$/ })
  t.throws(() => parse([], { INGEST_STORE: 'e', INGEST_DATA: 'd' }), {
    message: /INGEST_DATA and INGEST_STORE are set/,
  })
})

t.test('a key on the command line is refused', async (t) => {
  for (const args of [['--key', 'secret'], ['--key=secret'], ['--key']]) {
    t.throws(() => parse(['--url', url, ...args]), { message: /^a key on the command line is visible/ })
  }
})

t.test('an invalid key file is named in the error', async (t) => {
  const keyFile = join(t.testdir({ key: 'two words' }), 'key')
  const target = { url, project: 'p', retries: 0, timeout: 1000, keyFile }
  await t.rejects(
    connect(createIo().io, target, async () => {}),
    {
      code: 'unauthorized',
      message: `${keyFile} is not an ingestion key: set INGEST_KEY, or name a file with --key-file.`,
    },
  )
})
