import { readFileSync } from 'node:fs'
import { errorCodes, IngestError } from '@ingest/core'
import { type Command, CommanderError } from 'commander'
import t from 'tap'
import { serveCommand } from '../src/commands/serve.ts'
import { CommandFailure, exitCode, exitCodeHelp, exitCodeOf, toFailure } from '../src/exit-code.ts'
import { createProgram } from '../src/program.ts'
import { describeStore, isDatabase, toStoreArgument } from '../src/store.ts'
import { createIo, ingest, isWrongUsage, serveHere } from './run-ingest.ts'
import { createKey, send } from './served.ts'

// relative paths lead into a directory with a store
const packageUrl = new URL('../package.json', import.meta.url)
const servePageUrl = new URL('../../../../docs/serve.md', import.meta.url)
process.chdir(t.testdir({}))
const key = await createKey('data')

/** Every command and subcommand. */
function commandsOf(command: Command, words: string[] = []): { command: Command; words: string[] }[] {
  return [{ command, words }, ...command.commands.flatMap((each) => commandsOf(each, [...words, each.name()]))]
}

const commands = commandsOf(createProgram(createIo().io))

function optionsOf({ options }: Command): string[] {
  return options.flatMap(({ long, hidden }) => (hidden || !long ? [] : long.replace(/^--/, '')))
}
t.test('the help of every command names its options, after its arguments and before its examples', async (t) => {
  for (const { command, words } of commands) {
    const { code, stdout, stderr } = await ingest([...words, '--help'])
    const name = words.join(' ')
    t.match({ code, stderr }, { code: 0, stderr: /^$/ })
    t.match(stdout, /^Usage: ingest [a-z -]*(<\w+> )*([-<(][^\n]* )?\[options\]\n/, name)
    t.match(command.description(), /^\S/)
    t.notMatch(stdout, /\n\n\n/, `${name} has one empty line at a time`)
    const shown = Array.from(stdout.matchAll(/^ {2}(?:-\w, )?--([\w-]+)/gm), ([, option]) => option)
    const own = optionsOf(command)
    t.strictSame(shown.filter((option) => option !== 'help').sort(), own.sort(), name)
    for (const child of command.commands) t.match(stdout, `\n  ${child.name()} `, name)

    const examples = stdout.split(/^(?:Examples?|Start here):$/m)[1] ?? ''
    const lines = Array.from(examples.matchAll(/^ {2}(?:.* \| |\w+=\S+ )?ingest (.*)$/gm), ([, line = '']) => line)
    t.not(lines.length, 0, `ingest ${name} has an example`)
    for (const line of lines) {
      const program = createProgram(createIo().io)
      for (const { command } of commandsOf(program)) if (command.commands.length === 0) command.action(() => {})
      await t.resolves(program.parseAsync(line.replace(/ > .*/, '').split(' '), { from: 'user' }), line)
    }
  }
})

t.test('help and --version', async (t) => {
  const { version } = JSON.parse(readFileSync(packageUrl, 'utf8'))
  for (const flag of ['--version', '-V']) {
    t.strictSame(await ingest([flag]), { code: 0, signal: null, stdout: `${version}\n`, stderr: '' })
  }
  const { stdout } = await ingest(['keys', 'rotate', '--help'])
  t.match(stdout, /^Usage: ingest keys rotate <keyId> --store <store> --project <id> \[options\]\n/)
  for (const [line, same] of [
    ['help keys rotate', 'keys rotate --help'],
    ['keys help rotate', 'keys rotate --help'],
    ['help keys rotate vbxtzdc2', 'keys rotate --help'],
    ['help keys', 'keys --help'],
    ['keys', 'keys --help'],
    ['maps', 'maps --help'],
    ['', '--help'],
    ['help', '--help'],
    ['-h', '--help'],
  ] as const) {
    t.strictSame(await ingest(wordsOf(line)), await ingest(wordsOf(same)), line)
  }
  const help = (await ingest(['--help'])).stdout
  t.match(help, exitCodeHelp)
  t.match((await ingest(['keys'])).stdout, /^Usage: ingest keys <command> \[options\]\n(?:.*\n)* {2}rotate <keyId> /)
})

/** The words of a command line; quotes enclose an empty word, or spaces. */
function wordsOf(line: string): string[] {
  return Array.from(line.matchAll(/'([^']*)'|(\S+)/g), ([, quoted, word]) => quoted ?? word ?? '')
}

t.test('every variable in --help is read, and has the name of its option', async (t) => {
  const help = await Promise.all(commands.map(({ words }) => ingest([...words, '--help'])))
  const named = new Set(help.flatMap(({ stdout }) => stdout.match(/INGEST_\w+/g) ?? []))
  const known = ['INGEST_PROJECT_ID', 'INGEST_URL', 'INGEST_KEY', 'INGEST_STORE', 'INGEST_ADMIN_TOKEN']
  known.push('INGEST_FROM', 'INGEST_TO')
  const ofServe = serveCommand(createIo().io).options.flatMap(({ long, envVar }) =>
    long && envVar ? `INGEST_${long.slice(2).replaceAll('-', '_').toUpperCase()}` : [],
  )
  t.strictSame([...named].toSorted(), [...new Set([...known, ...ofServe])].toSorted())
  process.env.INGEST_STORE = 'data'
  await isWrongUsage(t, ['serve'], /required option '--store <store>' not specified/).finally(() => {
    delete process.env.INGEST_STORE
  })
})

t.test('serve reads its variables, and an option overrides an invalid one', async (t) => {
  const good = {
    INGEST_STORE: 'data',
    INGEST_LISTEN: '127.0.0.1:0',
    INGEST_RATE_LIMIT: 'off',
    INGEST_PENDING_MAP_LIMIT: '1g',
    INGEST_LOG_LEVEL: 'silent',
    INGEST_CONSOLE: 'false',
  }
  const quiet = await serveHere(t, [], { env: good })
  const unlimited = await send({ ...quiet, key }, ['a'])
  t.match(unlimited, { status: 202, body: { accepted: 1 } })
  t.notOk(unlimited.headers.has('RateLimit'))
  quiet.signal('SIGTERM')
  t.match(await quiet.exited, { code: 0, stdout: /^listening on http:\/\/127\.0\.0\.1:\d+\n$/, stderr: /^$/ })

  const bad = {
    INGEST_STORE: '',
    INGEST_PENDING_MAP_LIMIT: 'off',
    INGEST_LISTEN: 'x',
    INGEST_RATE_LIMIT: 'on',
    INGEST_LOG_LEVEL: 'loud',
  }
  const options = '--store data --listen 127.0.0.1:0 --rate-limit requests=7,events=700 --log-level info'
  const args = wordsOf(`${options} --pending-map-limit 1M`)
  const loud = await serveHere(t, args, { env: bad })
  const limited = await send({ ...loud, key }, ['a'])
  t.match(limited, { status: 202, body: { duplicates: 1 } })
  t.match(limited.headers.get('RateLimit-Policy'), '"requests";q=14')
  loud.signal('SIGTERM')
  t.match(await loud.exited, { code: 0, stderr: /"drained"/ })
})

t.test('docs/serve.md has every option of serve, with its default', async (t) => {
  const page = readFileSync(servePageUrl, 'utf8')
  for (const { long, defaultValue, defaultValueDescription, flags } of serveCommand(createIo().io).options) {
    if (long === '--json') continue
    const [, shown] = new RegExp(`^\\| \`${long}\` +\\| +\`?([^\`|]*?)\`? +\\|`, 'm').exec(page) ?? []
    const expected = defaultValueDescription ?? (typeof defaultValue === 'string' ? defaultValue : undefined)
    if (expected === undefined) t.match(shown, /^(required|off|none)$/, flags)
    else t.equal(shown, expected, flags)
  }
})

const canary = 'c4n4ry'

/** URLs with a password, and their printed form. */
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

t.test('a database is printed without its password and parameters, a directory as it is', async (t) => {
  for (const [url, text] of described) t.strictSame([isDatabase(url), describeStore(url)], [true, text], url)
  t.equal(toStoreArgument('postgres://ingest@a:1,b:2/games'), '--store postgres://ingest@a:1,b:2/games')
  for (const path of ['data/games', '/srv/a@b:c', 'postgres', 'C:\\data', './postgres:/x']) {
    t.strictSame([isDatabase(path), describeStore(path)], [false, path])
  }
  t.equal(toStoreArgument('a b'), "--store 'a b'")
})

t.test('a password on the command line is refused by every command with a store, and not repeated', async (t) => {
  const args: Record<string, string> = {
    send: '-',
    find: 'e',
    'consumers set': 'a --end',
    'consumers delete': 'a',
    'keys revoke': '0',
    'keys rotate': '0',
    'publish-map': '-',
  }
  Object.assign(args, { backup: 'made', restore: 'made', repair: '--to made', erase: '--player 7 --yes' })
  const withStore = commands.filter(({ command }) => optionsOf(command).includes('store'))
  const lines = withStore.map(({ command, words }) => {
    const name = words.join(' ')
    const isMap = /^(?:maps|publish-map)/.test(name)
    const more = `${optionsOf(command).includes('project') ? '--project p' : ''} ${isMap ? '--place 1 --build b' : ''}`
    return [`${name} ${args[name] ?? ''} ${more} --store`, 'INGEST_STORE'] as const
  })
  const copies = [['copy --to d --from', 'INGEST_FROM'] as const, ['copy --from d --to', 'INGEST_TO'] as const]
  for (const [line, variable] of [...lines, ...copies]) {
    for (const [url] of line.startsWith('stats') ? described : described.slice(0, 1)) {
      for (const json of [[], ['--json']]) {
        const { code, stdout, stderr } = await ingest([...wordsOf(line), url, ...json])
        t.equal(code, 2, line)
        t.match(stderr, `visible to other users: set the whole URL in ${variable}, or the password in PGPASSWORD`, line)
        t.notMatch(stdout + stderr, canary, line)
      }
    }
  }
})

t.test('a database that cannot be reached: exit code 6 and one line, without the password', async (t) => {
  const env = { INGEST_STORE: `postgres://ingest:${canary}@127.0.0.1:1/games`, INGEST_PROJECT_ID: 'p' }
  const commands = ['serve --listen 127.0.0.1:0 --log-level debug', 'find e', 'stats', 'migrate']
  // concurrently, because each of them retries for seconds
  await Promise.all(
    commands.map(async (line) => {
      const { code, stdout, stderr } = await ingest([...wordsOf(line), '--json'], { env })
      t.equal(code, 6, line)
      t.notMatch(stdout + stderr, canary)
      t.match(stderr, /^ingest: The database cannot be reached: .*\n$/)
      t.match(JSON.parse(stdout), { ok: false, error: { code: 'store-unavailable', retryable: true } })
    }),
  )
})

t.test('every error code has an exit code of the table in --help, and none is 0', async (t) => {
  const named = Array.from(exitCodeHelp.matchAll(/^ {2}(\d) {2}\S/gm), ([, code]) => Number(code))
  t.strictSame(named, Object.values(exitCode))
  const codes = errorCodes.map(exitCodeOf)
  t.ok(codes.every((code) => code !== exitCode.done && named.includes(code)))
})

t.test('every failure has an exit code, a code, a message, and whether it is retryable', async (t) => {
  const failure = { exitCode: 5, code: 'events-rejected', message: 'Some.', retryable: false, details: { events: 3 } }
  const bug = new TypeError('oops')
  for (const [error, expected] of [
    [
      new CommanderError(1, 'commander.unknownOption', 'error: unknown option'),
      { exitCode: 2, code: 'invalid-argument', message: 'unknown option', retryable: false },
    ],
    [
      new IngestError('map-frozen', 'It is frozen.'),
      { exitCode: 3, code: 'map-frozen', message: 'It is frozen.', retryable: false },
    ],
    [new IngestError('overloaded', 'Later.'), { exitCode: 6, code: 'overloaded', message: 'Later.', retryable: true }],
    [new CommandFailure(failure), failure],
    [
      new IngestError('internal-error', 'Failed.', { cause: 'at openStore' }),
      { exitCode: 1, code: 'internal-error', message: 'Failed. at openStore', retryable: false },
    ],
    [bug, { exitCode: 1, code: 'internal-error', message: bug.stack, retryable: false }],
    ['no error at all', { exitCode: 1, code: 'internal-error', message: 'no error at all', retryable: false }],
  ] as const) {
    t.strictSame(toFailure(error), expected)
  }
})
