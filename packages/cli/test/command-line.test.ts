import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { errorCodes, IngestError } from '@ingest/core'
import { type Command, CommanderError } from 'commander'
import t from 'tap'
import { serveCommand } from '../src/commands/serve.ts'
import { CommandFailure, exitCode, exitCodeHelp, exitCodeOf, toFailure } from '../src/exit-code.ts'
import { createProgram } from '../src/program.ts'
import { describeStore, isDatabase, toStoreArgument } from '../src/store.ts'
import { createIo, ingest, isWrongUsage, serveHere } from './run-ingest.ts'
import { createKey, openServed, projectId, send, unknownProject } from './served.ts'

// relative paths lead into a directory with a store
const directory = t.testdir({ file: 'mine', 'events.ndjson': '{}' })
const packageUrl = new URL('../package.json', import.meta.url)
const servePageUrl = new URL('../../../../docs/serve.md', import.meta.url)
process.chdir(directory)
const key = await createKey('data')
const before = readdirSync(directory)

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

const store = '--store data --project game-1'
const publish = 'publish-map file --place 1 --build b'
const each = (format: string, ...values: string[]) => values.map((value) => format.replace('%', value))

/** Command lines by what is wrong with them. */
const wrong: [pattern: RegExp, ...lines: string[]][] = [
  [/required option '--store <store>' not specified/, 'serve', ...each('keys % --project p', 'create', 'list')],
  [/required option '--store <store>'/, ...each('keys % 00000000 --project p', 'revoke', 'rotate')],
  [/required option '--project <id>' not specified/, ...each('keys % --store data', 'create', 'list', 'revoke 0')],
  [
    /required option '--project <id>' not specified/,
    ...each('% --store data', 'export', 'find a', 'send file', publish),
  ],
  [/name a server with --url or INGEST_URL, or a store with --store/, 'stats'],
  [/name a server with --url/, ...each('% --project p', 'export', 'tail', 'find a', 'send file', publish, 'maps list')],
  [
    /, not both/,
    'export --project p --url http://x --store data',
    `${publish} --project p --url http://x --store data`,
  ],
  [/url must be the address of the server/, `${publish} --project p --url ftp://x --key-file events.ndjson`],
  [/name the project: --project <id>/, 'stats --url http://x', 'stats --store data --builds'],
  [/name the project: --project <id>/, 'erase --player 7 --yes --store data'],
  [/name the database with --store/, 'migrate'],
  [/a directory has no migrations/, 'migrate --store data'],
  [/required option '--to <store>' not specified/, 'copy --from data'],
  [/name the same store/, 'copy --from data --to data'],
  [/missing required argument 'file'/, `send ${store}`, `publish-map ${store} --place 1 --build b`],
  [/missing required argument 'keyId'/, 'keys revoke --project p --store data'],
  [/missing required argument 'eventId'/, 'find --project p'],
  [/missing required argument 'command'/, 'conformance', 'conformance --spool'],
  [/There is no rule 'x'/, 'conformance --rule x -- none'],
  [/none cannot be started/, 'conformance -- none --json'],
  [
    /required option '--place <id>' not specified/,
    'publish-map file --build b',
    ...each('maps % --build b', 'show', 'verify'),
  ],
  [/required option '--build <id>' not specified/, 'publish-map file --place 1', 'maps download --place 1'],
  [
    /There is no store in /,
    ...each('% --store none --project p', 'export', 'tail', 'keys list', 'keys revoke 0', 'maps list'),
  ],
  [
    /There is no store in /,
    `${publish} --store none --project p`,
    'copy --from none --to made',
    'restore none --store made',
  ],
  [/There is no store in /, 'send file --rejected made --store none --project p', 'export --store file --project p'],
  [/There is no store in /, 'export --output made --store none --project p'],
  [
    /cannot be a directory/,
    ...each('serve --listen 127.0.0.1:0 --store %', 'file', 'file/data'),
    'copy --from data --to file',
  ],
  [/non-empty/, "export --store '' --project p", `export ${store} --output ''`, `tail ${store} --type ''`],
  [/non-empty/, `maps download ${store} --output made --place 1 --build ''`],
  [
    /Expected a project id: 1 to 64 of/,
    ...each('keys create --store made --project %', "''", 'é', 'a:b', 'x'.repeat(65)),
  ],
  [
    /Expected a project id: 1 to 64 of/,
    ...each("% --store data --project 'a b'", 'export', 'stats', 'maps list', 'send file'),
  ],
  [/'READ' is not a scope: expected events:write, maps:write, read, consume\./, `keys create ${store} --scope READ`],
  [/'' is not a scope/, `keys create ${store} --scope read,`],
  [/'nonsense' is not a scope/, `keys create ${store} --scope read,nonsense`],
  [/Expected a time in the future/, ...each(`keys create ${store} --expires %`, '2020-01-01T00:00:00Z', '0s')],
  [
    /Expected a duration such as 90d, or an RFC 3339 time/,
    ...each(`keys create ${store} --expires=%`, '', 'never', '90', '2100-01-02', '2100-01-02T03:04:05', '-1d'),
    ...each(`keys create ${store} --expires=%`, '2100-13-02T03:04:05Z', '2100-02-30T03:04:05Z'),
  ],
  [
    /Expected a duration with a unit: 10s, 30m, 48h or 90d/,
    ...each(`keys rotate 0 ${store} --overlap %`, "''", '48', 'h', '-1h', '1.5h', '1w', '1H', '1234567d'),
  ],
  [/'90d' is invalid. Expected a duration of at most 24h/, 'serve --store data --drain-timeout 90d'],
  [/more than 0/, 'erase --yes --store data --older-than 0d', `find e ${store} --timeout 0s`],
  // a number without a unit, and seconds since 1970
  [
    /Expected a duration such as 90d, or a time before now/,
    ...each(`erase --yes ${store} --older-than %`, '90', '1700000000'),
  ],
  [/--latest expects a duration/, 'copy --from a --to b --latest 1700000000'],
  [/--from expects a duration such as 10m, or a time/, ...each(`export ${store} --from %`, 'soon', '2026-11-20', '10')],
  [/--to expects a duration such as 10m/, `export ${store} --output made --to yesterday`],
  [/--since expects a duration/, ...each(`% ${store} --since yesterday`, 'tail', 'rejected')],
  [/at most 31 days/, `rejected ${store} --since 32d`],
  [/Expected a duration from 1h/, 'serve --store data --keep-activity 59m'],
  [/--from must be before/, `export ${store} --from 1h --to 2h`],
  [
    /'--retries <n>' argument '.*' is invalid. Expected an integer from 0 to 100/,
    ...each(`stats ${store} --retries %`, "''", '-1', '101', '1.5', '0x10', '1e3', "' 1'", 'ten', '9'.repeat(20)),
  ],
  [/'--limit <n>' argument '.*' is invalid/, `export ${store} --limit 9007199254740992`],
  [/integer from 1 to 64/, ...each(`send file ${store} --concurrency %`, '0', '65')],
  [/integer from 1 to 16/, ...each(`${publish} ${store} --concurrency %`, '0', '17', 'x')],
  [/integer from 1 to 256/, 'migrate --key-partitions 0'],
  [/name the position: --cursor <cursor>, --event <eventId> or --end/, `consumers set a ${store}`],
  [/begin with a letter or digit/, `consumers set .a --end ${store}`, `consumers delete 'a b' ${store}`],
  [/The cursor is not an event cursor of this store/, ...each(`% ${store} --after 1-2-3`, 'export', 'tail')],
  [/Expected at least 1 byte/, `find '' ${store}`],
  [/Expected at most 256 bytes/, `find ${'x'.repeat(257)} ${store}`],
  [/cannot be used with/, `tail ${store} --since 1h --after x`, `erase ${store} --older-than 90d --player 7`],
  [/cannot be used with/, `${publish} ${store} --if-absent --expect x`, 'migrate --print --new-epoch'],
  [/--expect expects a digest/, `${publish} ${store} --expect abc`],
  [/Allowed choices are fail, warn/, `${publish} ${store} --on-frozen ignore`],
  [/'--every <period>' argument 'week' is invalid/, `export ${store} --output made --every week`],
  [/'--format <format>' argument 'csv' is invalid/, `export ${store} --output made --format csv`],
  [
    /'--max-size <bytes>' argument '.*' is invalid/,
    ...each(`export ${store} --output made --max-size %`, '0', '1T', '2T'),
  ],
  [/requires --output: it applies to files/, ...each(`export ${store} %`, '--every day', '--max-size 1M', '--gzip')],
  [/--format requires --output/, `export ${store} --format ndjson`],
  [/--cursor-file requires --output: the fate/, `export ${store} --cursor-file c`],
  [/--schemas needs --dry-run/, `send file ${store} --schemas file`],
  [/cannot be read/, `send none ${store}`, `publish-map none --place 1 --build b ${store}`],
  [/is a directory/, `send data ${store}`, `publish-map data --place 1 --build b ${store}`],
  [/is the input file/, `send events.ndjson ${store} --rejected events.ndjson`],
  [/cannot be written/, `send events.ndjson ${store} --rejected none/x`],
  [/cannot be a directory/, `export ${store} --output file`],
  [/key file cannot be read/, 'export --url http://x --project p --key-file none'],
  [/confirm it with --yes/, `erase ${store} --player 7`],
  [/--player <id>, --where/, `erase ${store} --yes`],
  [/--where .*JSON Pointer and a value/, ...each(`erase ${store} --yes --where %`, 'playerId=7', '/playerId')],
  [
    /--rate-limit <limits>' argument '.*' is invalid. Expected/,
    ...each('serve --store data --rate-limit %', 'on', 'OFF', '1,1'),
  ],
  [
    /is invalid. Expected/,
    ...each('serve --store data --rate-limit %', 'requests=0', 'events', 'requests=1,', 'requests=1.5'),
  ],
  [
    /is invalid. Expected/,
    ...each('serve --store data --rate-limit %', 'events=1,events=2', 'uploads=off', 'reads=1', 'toString=1'),
  ],
  [
    /Expected a size from 1 to/,
    ...each('serve --store data --pending-map-limit %', "''", '0', 'off', '1.5M', '-1', '1T', "'1 M'"),
  ],
  [/Expected a size from 1 to/, 'serve --store data --pending-map-limit 1000000000000000000G'],
  [
    /--listen <address>' argument '.*' is invalid/,
    ...each('serve --store data --listen %', "''", ':8787', '8787', 'a:b', '::1:8787'),
  ],
  [
    /--listen <address>' argument '.*' is invalid/,
    ...each('serve --store data --listen %', 'a', 'a:65536', 'http://a:1', 'unix:'),
  ],
  [/203.0.113.1 is not an address of this machine/, 'serve --store data --listen 203.0.113.1:0'],
  [/Allowed choices are fatal, error, warn, info, debug, silent/, 'serve --store data --log-level loud'],
  [/Allowed choices are text, json, pino/, 'serve --store data --log-format xml'],
  [/--tls-cert needs --tls-key/, 'serve --store data --tls-cert file'],
  [/--tls-key needs --tls-cert/, 'serve --store data --tls-key file'],
  [/pg_dump or pgBackRest.*ingest migrate --new-epoch/, 'backup made --store postgres://u@h/d'],
  [/pg_amcheck/, 'verify --store postgres://u@h/d'],
  [/pg_dump/, 'repair --store postgres://u@h/d --to made', 'restore made --store postgres://u@h/d'],
  [/unknown command 'serv' \(Did you mean serve\?\)/, 'serv', 'serv --store x', 'serv --help', 'help serv'],
  [/unknown command 'rot' \(Did you mean rotate\?\)/, 'keys rot', 'help keys rot'],
  [/unknown command 'xyzzy': `ingest --help` lists/, 'xyzzy'],
  [/unknown option '--verbose'/, '--verbose', 'serve --store data --verbose', `keys list ${store} --verbose`],
  [/unknown option '--liste' \(Did you mean --listen\?\)/, 'serve --store data --liste 0'],
  [/unknown option '--stroe' \(Did you mean --store\?\)/, 'serve --stroe data', 'keys list --project p --stroe=data'],
  [/too many arguments/, 'serve --store data extra'],
  [/--store <store>' argument missing/, 'serve --store'],
  [
    /a key on the command line is visible.*INGEST_KEY/,
    ...each('export --url http://x --project p %', '--key x', '--key=x', '--key'),
  ],
]

t.test('wrong usage is one line with exit code 2, and creates nothing', async (t) => {
  for (const [pattern, ...lines] of wrong) for (const line of lines) await isWrongUsage(t, wordsOf(line), pattern)
  t.strictSame(readdirSync(directory), before)
  const { stdout } = await ingest(['export', '--json', '--url', 'http://x', '--project', 'p', '--key', 'canary'])
  t.match(JSON.parse(stdout), { ok: false, error: { code: 'invalid-argument', message: /^((?!canary).)*$/ } })
  t.match(await ingest(['keys', '--json']), { code: 2, stdout: /^\{"ok":false/, stderr: /unknown option '--json'/ })
})

t.test('an unknown project of a store: exit code 3, and nothing is created', async (t) => {
  const lines = ['export', 'export --output made', 'find a', 'tail', 'stats', 'stats --builds', 'maps list']
  const erasures = ['erase --player 7 --yes', 'erase --player 7 --dry-run', 'erase --older-than 90d --yes']
  for (const line of [...lines, ...erasures]
    .map((each) => `${each} --store data`)
    .concat('copy --from data --to made')) {
    const words = [...wordsOf(line), '--project', 'gmae-1']
    t.strictSame(await ingest(words), { code: 3, signal: null, stdout: '', stderr: unknownProject }, line)
    const { stdout } = await ingest([...words, '--json'])
    t.match(JSON.parse(stdout), { ok: false, error: { code: 'project-not-found', retryable: false } }, line)
  }
  t.strictSame(readdirSync(directory), before)
  const known = await ingest(wordsOf(`export ${store}`))
  t.strictSame(known, { code: 0, signal: null, stdout: '', stderr: '' }, 'a project without events is known')
})

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

t.test('an option overrides its variable, and the variable of the other kind of target', async (t) => {
  const env = { INGEST_STORE: 'data', INGEST_PROJECT_ID: projectId }
  const { stdout } = await ingest(['keys', 'list'], { env })
  t.match(stdout, key.slice(3, 11))
  const strange = { INGEST_STORE: 'none', INGEST_PROJECT_ID: 'a b' }
  t.equal((await ingest(wordsOf(`keys list ${store}`), { env: strange })).stdout, stdout)
  await isWrongUsage(t, wordsOf('keys list --store data'), /Expected a project id/, { env: strange })
  await isWrongUsage(t, wordsOf('keys list --project game-1'), /There is no store/, { env: strange })

  const served = await openServed(t)
  await send(served, ['served'])
  const isServed = { code: 0, stdout: /"served"/, stderr: '' }
  t.match(await ingest(['export'], { env: { ...served.env, INGEST_STORE: '' } }), isServed, 'an empty one is unset')
  const away = { ...served.env, INGEST_URL: 'http://127.0.0.1:1' }
  t.match(await ingest(['export', '--url', served.url], { env: { ...away, INGEST_STORE: 'none' } }), isServed)
  t.match(await ingest(['export', '--store', 'data'], { env: away }), { code: 0, stdout: /^$/, stderr: '' })
  await isWrongUsage(t, ['export'], /, not both/, { env: { ...away, INGEST_STORE: 'data' } })
  await isWrongUsage(t, ['export'], /name a server with --url or INGEST_URL/, {
    env: { ...served.env, INGEST_URL: '' },
  })
})

t.test('the key is that of a variable or of a file; an invalid one is exit code 4, and not printed', async (t) => {
  const { env, key } = await openServed(t)
  writeFileSync('key', `${key}\n`)
  writeFileSync('words', 'two words')
  const files = { key: 0, words: 4, file: 4 }
  for (const [file, code] of Object.entries(files)) {
    t.match(await ingest(['export', '--key-file', file], { env: { ...env, INGEST_KEY: '' } }), { code }, file)
  }
  const invalid = await ingest(['export', '--key-file', 'words'], { env })
  t.equal(invalid.stderr, 'ingest: words is not an ingestion key: set INGEST_KEY, or name a file with --key-file.\n')
  const wrong = `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}`
  for (const command of ['export', 'tail', 'stats', 'maps list', publish]) {
    for (const INGEST_KEY of ['', 'two words', wrong]) {
      const { code, stdout, stderr } = await ingest(wordsOf(command), { env: { ...env, INGEST_KEY } })
      t.match({ code, stdout, stderr }, { code: 4, stdout: /^$/, stderr: /^ingest: .*INGEST_KEY.*\n$/ }, command)
      if (INGEST_KEY !== '') t.notMatch(stderr, INGEST_KEY)
    }
  }
  for (const file of ['key', 'words']) rmSync(file)
})

t.test('serve reads its variables', async (t) => {
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

  const bad: [string, string, RegExp][] = [
    ['INGEST_STORE', '', /required option '--store <store>' not specified/],
    ['INGEST_PENDING_MAP_LIMIT', 'off', /value 'off' from env 'INGEST_PENDING_MAP_LIMIT' is invalid/],
    ['INGEST_LISTEN', '203.0.113.1:0', /203\.0\.113\.1 is not an address of this machine/],
    ['INGEST_LISTEN', 'x', /'--listen <address>' value 'x' from env 'INGEST_LISTEN' is invalid/],
    ['INGEST_RATE_LIMIT', 'on', /'--rate-limit <limits>' value 'on' from env 'INGEST_RATE_LIMIT' is invalid/],
    ['INGEST_LOG_LEVEL', 'loud', /'--log-level <level>' value 'loud' from env 'INGEST_LOG_LEVEL' is invalid/],
  ]
  const strange: [string, string, RegExp] = ['INGEST_CONSOLE', 'on', /INGEST_CONSOLE expects true or false, not 'on'/]
  for (const [name, value, pattern] of [...bad, strange]) {
    await isWrongUsage(t, ['serve'], pattern, { env: { ...good, [name]: value } })
  }
  const options = '--store data --listen 127.0.0.1:0 --rate-limit requests=7,events=700 --log-level info'
  const args = wordsOf(`${options} --pending-map-limit 1M`)
  const loud = await serveHere(t, args, { env: Object.fromEntries(bad) })
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

t.test('a URL is not taken for a directory or a file, and not repeated', async (t) => {
  const database = described[0]?.[0]
  for (const [line, pattern] of [
    [`serve --store mysql://root:${canary}@localhost/games`, /a store is a directory or postgres:/],
    [`serve --store jdbc:postgresql://localhost/games?password=${canary}`, /a store is a directory or postgres:/],
    [`copy --from data --to mysql://root:${canary}@localhost/games`, /a store is a directory or postgres:/],
    [`backup ${database} --store d`, /is a path on this machine, not a URL/],
    [`restore ${database} --store d`, /is a path on this machine, not a URL/],
    [`repair --store d --to ${database}`, /is a path on this machine, not a URL/],
    [`export --store d --project p --output ${database}`, /is a path on this machine, not a URL/],
  ] as const) {
    await isWrongUsage(t, wordsOf(line), pattern)
    t.notMatch((await ingest(wordsOf(line))).stderr, canary)
  }
  t.strictSame(readdirSync(directory), before)
})

t.test('a database that cannot be reached: exit code 6 and one line, without the password', async (t) => {
  const env = { INGEST_STORE: `postgres://ingest:${canary}@127.0.0.1:1/games`, INGEST_PROJECT_ID: 'p' }
  const commands = ['serve --listen 127.0.0.1:0 --log-level debug', 'find e', 'stats', 'migrate']
  // at once, as each of them retries for seconds
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
