import { join } from 'node:path'
import { Command } from 'commander'
import t from 'tap'
import { addTargetOptions, targetOf, withTarget } from '../src/with-target.ts'

/** What a command line means, with an environment of its own. */
function parse(args: string[], env: Record<string, string> = {}) {
  const names = ['INGEST_URL', 'INGEST_DATA', 'INGEST_PROJECT_ID']
  const before = names.map((name) => [name, process.env[name]] as const)
  for (const name of names) delete process.env[name]
  Object.assign(process.env, env)
  try {
    const command = addTargetOptions(new Command('maps'))
      .exitOverride()
      .configureOutput({ outputError() {} })
    command.parse(['--project', 'p', ...args], { from: 'user' })
    return targetOf(command)
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name]
      else process.env[name] = value
    }
  }
}

const url = 'http://localhost'

t.test('maps are on a server or in a store', async (t) => {
  t.match(parse(['--url', url]), { url, project: 'p', retries: 4, timeout: 120_000 })
  t.match(parse(['--data', 'd']), { data: 'd' })
  t.match(parse([], { INGEST_URL: url }), { url })
  t.match(parse(['--timeout', '5s', '--retries', '0'], { INGEST_DATA: 'd' }), { data: 'd', retries: 0, timeout: 5000 })
})

t.test('an option wins over the environment', async (t) => {
  t.strictSame(parse(['--url', url], { INGEST_DATA: 'd' }).data, undefined)
  t.strictSame(parse(['--data', 'd'], { INGEST_URL: url }).url, undefined)
})

t.test('neither of them, or both, is wrong use', async (t) => {
  t.throws(() => parse([]), { message: /name a server with --url/ })
  t.throws(() => parse(['--url', url, '--data', 'd']), { message: /not both/ })
  t.throws(() => parse([], { INGEST_URL: url, INGEST_DATA: 'd' }), { message: /not both: INGEST_URL and INGEST_DATA/ })
})

t.test('a key on the command line is refused', async (t) => {
  for (const args of [['--key', 'secret'], ['--key=secret'], ['--key']]) {
    t.throws(() => parse(['--url', url, ...args]), { message: /^a key does not go on a command line/ })
  }
})

t.test('a file that holds no key is told of by its name', async (t) => {
  const keyFile = join(t.testdir({ key: 'two words' }), 'key')
  const target = { url, project: 'p', retries: 0, timeout: 1000, keyFile }
  await t.rejects(
    withTarget(target, async () => {}),
    {
      code: 'unauthorized',
      message: `What is in ${keyFile} is no ingestion key: put one into INGEST_KEY, or name its file by --key-file.`,
    },
  )
})
