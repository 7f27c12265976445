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

t.test('a target is a server or a store', async (t) => {
  t.match(parse(['--url', url]), { url, project: 'p', retries: 4, timeout: 120_000 })
  t.match(parse(['--data', 'd']), { data: 'd' })
  t.match(parse([], { INGEST_URL: url }), { url })
  t.match(parse(['--timeout', '5s', '--retries', '0'], { INGEST_DATA: 'd' }), { data: 'd', retries: 0, timeout: 5000 })
})

t.test('an option overrides the environment', async (t) => {
  t.strictSame(parse(['--url', url], { INGEST_DATA: 'd' }).data, undefined)
  t.strictSame(parse(['--data', 'd'], { INGEST_URL: url }).url, undefined)
})

t.test('an empty variable counts as unset', async (t) => {
  t.match(parse(['--data', 'd'], { INGEST_URL: '' }), { data: 'd', url: undefined })
  t.match(parse(['--url', url], { INGEST_DATA: '' }), { url, data: undefined })
  t.throws(() => parse([], { INGEST_URL: '' }), { message: /^missing --url/ })
})

t.test('neither --url nor --data, or both, is wrong usage', async (t) => {
  t.throws(() => parse([]), { message: /^missing --url <url> \(or INGEST_URL\) or --data <dir> \(or INGEST_DATA\)/ })
  t.throws(() => parse(['--url', url, '--data', 'd']), { message: /not both/ })
  t.throws(() => parse([], { INGEST_URL: url, INGEST_DATA: 'd' }), { message: /not both: INGEST_URL and INGEST_DATA/ })
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
