import { join } from 'node:path'
import { Command } from 'commander'
import t from 'tap'
import { addTargetOptions, connect, parseTarget, type Target } from '../src/connect.ts'
import { parseCommandLine } from '../src/program.ts'
import { createIo } from './run-ingest.ts'

/** Parses a command line with its own environment. */
async function parse(args: string[], env: Record<string, string> = {}) {
  const command = addTargetOptions(new Command('maps'))
    .exitOverride()
    .configureOutput({ outputError() {} })
  let target: Target | undefined
  command.action(() => {
    target = parseTarget(command)
  })
  await parseCommandLine(
    new Command('ingest').addCommand(command.exitOverride()),
    ['maps', '--project', 'p', ...args],
    env,
  )
  return target as Target
}

const url = 'http://localhost'
const database = 'postgres://ingest@localhost/games'

t.test('a target is a server or a store', async (t) => {
  t.match(await parse(['--url', url]), { url, project: 'p', retries: 4, timeout: 120_000 })
  t.match(await parse(['--store', 'd']), { store: 'd' })
  t.match(await parse(['--store', database]), { store: database })
  t.match(await parse([], { INGEST_URL: url }), { url })
  t.match(await parse(['--timeout', '5s', '--retries', '0'], { INGEST_STORE: 'd' }), {
    store: 'd',
    retries: 0,
    timeout: 5000,
  })
})

t.test('an option overrides the environment', async (t) => {
  t.strictSame((await parse(['--url', url], { INGEST_STORE: 'd' })).store, undefined)
  t.match(await parse(['--store', 'd'], { INGEST_URL: url, INGEST_STORE: 'e' }), { url: undefined, store: 'd' })
})

t.test('an empty variable counts as unset', async (t) => {
  t.match(await parse(['--store', 'd'], { INGEST_URL: '', INGEST_STORE: '' }), { store: 'd', url: undefined })
  t.match(await parse(['--url', url], { INGEST_STORE: '' }), { url, store: undefined })
  await t.rejects(parse([], { INGEST_URL: '' }), {
    message: /^error: name|^name a server with --url or INGEST_URL, or a store/,
  })
})

t.test('neither --url nor --store, or both, is wrong usage', async (t) => {
  await t.rejects(parse([]), {
    message: /^error: name|^name a server with --url or INGEST_URL, or a store with --store/,
  })
  await t.rejects(parse(['--url', url, '--store', 'd']), { message: /, not both/ })
  await t.rejects(parse([], { INGEST_URL: url, INGEST_STORE: 'd' }), { message: /, not both/ })
})

t.test('a key on the command line is refused', async (t) => {
  for (const args of [['--key', 'secret'], ['--key=secret'], ['--key']]) {
    await t.rejects(parse(['--url', url, ...args]), { message: /a key on the command line is visible/ })
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
