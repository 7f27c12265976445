import { readdirSync } from 'node:fs'
import t from 'tap'
import { describeStore, isDatabase, toStoreArgument } from '../src/store.ts'
import { ingest, isWrongUsage } from './run-ingest.ts'

const canary = 'c4n4ry'

/** URLs with a password, and what may be printed of each. */
const described: [url: string, text: string][] = [
  [`postgres://ingest:${canary}@localhost/games`, 'postgres://ingest@localhost/games'],
  [`postgresql://ingest:${canary}@localhost:5432/games?sslmode=require`, 'postgresql://ingest@localhost:5432/games'],
  [`postgres://ingest:${canary}@a:5432,b:5433/games`, 'postgres://ingest@a:5432,b:5433/games'],
  [`postgres://ingest:${canary}@[::1]:5432/games`, 'postgres://ingest@[::1]:5432/games'],
  [`postgres://localhost/games?user=ingest&password=${canary}`, 'postgres://localhost/games'],
  [`postgres://localhost/games?pass%77ord=${canary}`, 'postgres://localhost/games'],
  [`postgres:///games?password=${canary}`, 'postgres:///games'],
  // passwords that should have been escaped
  [`postgres://ingest:a@${canary}@localhost/games`, 'postgres://…'],
  [`postgres://ingest:a/${canary}@localhost/games`, 'postgres://…'],
  [`postgres://ingest:a?${canary}@localhost/games`, 'postgres://…'],
  [`postgres://ingest:a#${canary}@localhost/games`, 'postgres://…'],
  [`postgres://ingest:${canary}:a@localhost/games`, 'postgres://ingest@localhost/games'],
  [`postgres://localhost/games?password=a@${canary}`, 'postgres://…'],
  [`POSTGRES://ingest:${canary}@localhost/games`, 'postgres://…'],
]

t.test('a database is printed without its password and parameters', async (t) => {
  for (const [url, text] of described) {
    t.ok(isDatabase(url), url)
    t.equal(describeStore(url), text)
  }
  t.equal(toStoreArgument('postgres://ingest@a:1,b:2/games'), '--store postgres://ingest@a:1,b:2/games')
})

t.test('a directory is printed as it is', async (t) => {
  for (const directory of ['data/games', '/srv/a@b:c', 'postgres', 'C:\\data', './postgres:/x']) {
    t.notOk(isDatabase(directory))
    t.equal(describeStore(directory), directory)
  }
  t.equal(toStoreArgument('a b'), "--store 'a b'")
})

const project = ['--project', 'demo']
const map = ['--place', '1', '--build', 'b']
const commands = [
  ['serve', '--listen', '127.0.0.1:0'],
  ...['create', 'list'].map((name) => ['keys', name, ...project]),
  ...['revoke', 'rotate'].map((name) => ['keys', name, '00000000', ...project]),
  ['send', '-', ...project],
  ['export', ...project],
  ['tail', ...project],
  ['find', 'e', ...project],
  ['stats'],
  ['publish-map', '-', ...map, ...project],
  ['maps', 'list', ...project],
  ['maps', 'show', ...map, ...project],
  ['maps', 'download', ...map, ...project],
  ['maps', 'verify', ...map, ...project],
  ['migrate'],
]

t.test('a password on the command line is refused by every command, and not repeated', async (t) => {
  const lines = commands.map((command): [string[], string] => [[...command, '--store'], 'INGEST_STORE'])
  lines.push([['copy', '--to', 'd', '--from'], 'INGEST_FROM'], [['copy', '--from', 'd', '--to'], 'INGEST_TO'])
  for (const [command, variable] of lines) {
    for (const [url] of command[0] === 'stats' ? described : described.slice(0, 1)) {
      for (const json of [[], ['--json']]) {
        const name = command.join(' ')
        const { code, stdout, stderr } = await ingest([...command, url, ...json])
        t.equal(code, 2, name)
        t.match(
          stderr,
          `a password on the command line is visible to other users: set the whole URL in ${variable}`,
          name,
        )
        t.match(stderr, /or the password in PGPASSWORD/)
        t.notMatch(stdout + stderr, canary, name)
      }
    }
  }
})

t.test('a database that cannot be reached: exit code 6 and one line, without the password', async (t) => {
  const env = { INGEST_STORE: `postgres://ingest:${canary}@127.0.0.1:1/games` }
  // at once, as each of them retries for seconds
  const tried = ['serve', 'find', 'stats', 'migrate']
  const chosen = commands.filter(([name = '']) => tried.includes(name))
  await Promise.all(
    chosen.map(async (command) => {
      const { code, stdout, stderr } = await ingest([...command, '--json'], { env })
      t.equal(code, 6, command.join(' '))
      t.notMatch(stdout + stderr, canary)
      t.match(stderr, /^ingest: The database cannot be reached: .*\n$/)
      t.match(JSON.parse(stdout), { ok: false, error: { code: 'store-unavailable', retryable: true } })
    }),
  )
})

t.test('a URL is not taken for a directory', async (t) => {
  const path = t.testdir()
  const from = process.cwd()
  t.teardown(() => process.chdir(from))
  process.chdir(path)
  const database = `postgres://ingest:${canary}@localhost/games`
  for (const [args, pattern] of [
    [['--store', `mysql://root:${canary}@localhost/games`], /a store is a directory or postgres:/],
    [['--store', `jdbc:postgresql://localhost/games?password=${canary}`], /a store is a directory or postgres:/],
  ] as const) {
    await isWrongUsage(t, ['serve', ...args], pattern)
    t.notMatch((await ingest(['serve', ...args])).stderr, canary)
  }
  for (const args of [
    ['backup', database, '--store', 'd'],
    ['restore', database, '--store', 'd'],
    ['repair', '--store', 'd', '--to', database],
    ['export', '--store', 'd', '--project', 'p', '--output', database],
  ]) {
    await isWrongUsage(t, args, /is a path on this machine, not a URL/)
    t.notMatch((await ingest(args)).stderr, canary)
  }
  t.strictSame(readdirSync(path), [])
})
