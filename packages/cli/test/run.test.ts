import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import t from 'tap'
import { createProgram } from '../src/program.ts'
import { createIo, ingest, isWrongUsage } from './run-ingest.ts'

t.test('--help names every command and every exit code', async (t) => {
  for (const args of [['--help'], ['-h'], ['help']]) {
    const { code, stdout, stderr } = await ingest(args)
    t.match({ code, stderr }, { code: 0, stderr: /^$/ })
    const words = ['serve', 'keys', 'send', 'export', 'find', 'stats', 'publish-map', 'maps', 'copy', 'migrate']
    for (const word of [...words, 'Exit codes:']) t.match(stdout, word)
    for (const exitCode of [0, 1, 2, 3, 4, 5, 6, 7]) t.match(stdout, new RegExp(`^  ${exitCode}  \\w`, 'm'))
  }
})

t.test('--help of a command names its options', async (t) => {
  const options: [string[], string[]][] = [
    [
      ['serve'],
      ['--store', '--listen', '--admin', '--rate-limit', '--pending-map-limit', '--schemas', '--log-level', 'SIGTERM'],
    ],
    [['keys'], ['create', 'list', 'revoke', 'rotate']],
    [
      ['keys', 'create'],
      ['--store', '--project', '--scope', '--expires'],
    ],
    [
      ['keys', 'list'],
      ['--store', '--project', '--json'],
    ],
    [
      ['keys', 'revoke'],
      ['<keyId>', '--store', '--project'],
    ],
    [
      ['keys', 'rotate'],
      ['<keyId>', '--store', '--project', '--overlap'],
    ],
    [
      ['export'],
      ['--url', '--store', '--project', '--key-file', '--after', '--limit', '--output', '--every', '--max-size'].concat(
        ['--type', '--build', '--from', '--to', '--format', '--gzip', '--cursor-file', '--json'],
      ),
    ],
    [['find'], ['<eventId>', '--url', '--store', '--project', '--json', 'Exit code 3']],
    [['stats'], ['--url', '--store', '--project', '--builds', '--json', 'all projects']],
    [['copy'], ['--from', '--to', '--project', '--json', '--quiet', 'INGEST_FROM', 'Exit code 3']],
    [['migrate'], ['--store', '--print', '--grant-to', '--key-partitions', '--new-epoch', '--json', 'INGEST_STORE']],
    [
      ['publish-map'],
      ['<file>', '--place', '--build', '--url', '--store', '--project', '--key-file', '--retries', '--timeout']
        .concat(['--content-type', '--if-absent', '--expect', '--on-frozen', '--dry-run', '--concurrency'])
        .concat(['--json', '--quiet', 'INGEST_KEY', 'Exit code 0']),
    ],
    [
      ['send'],
      [
        '<file>',
        '--url',
        '--store',
        '--project',
        '--key-file',
        '--retries',
        '--timeout',
        '--make-ids',
        '--rejected',
      ].concat(['--concurrency', '--dry-run', '--schemas', '--json', '--quiet', 'INGEST_KEY', 'Exit code 0']),
    ],
    [['maps'], ['list', 'show', 'download', 'verify']],
    [
      ['maps', 'download'],
      ['--place', '--build', '--url', '--store', '--output'],
    ],
    [
      ['maps', 'verify'],
      ['--place', '--build', '--url', '--store', '--file'],
    ],
  ]
  for (const [command, words] of options) {
    const { code, stdout, stderr } = await ingest([...command, '--help'])
    t.match({ code, stderr }, { code: 0, stderr: /^$/ })
    for (const word of words) t.match(stdout, word, `${command.join(' ')} ${word}`)
    t.notMatch(stdout, /\n\n\n/, `${command.join(' ')} has one empty line at a time`)
  }
})

t.test('--version prints the version of the package', async (t) => {
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
  for (const flag of ['--version', '-V']) {
    t.strictSame(await ingest([flag]), { code: 0, signal: null, stdout: `${version}\n`, stderr: '' })
  }
})

t.test('a command line without a command prints the help of its group', async (t) => {
  for (const [args, pattern] of [
    [[], /^Usage: ingest <command> \[options\]\n(?:.*\n)* {2}serve /],
    [['keys'], /^Usage: ingest keys <command> \[options\]\n(?:.*\n)* {2}rotate <keyId> /],
    [['maps'], /^Usage: ingest maps <command> \[options\]\n(?:.*\n)* {2}verify /],
  ] as const) {
    t.match(await ingest(args), { code: 0, stdout: pattern, stderr: /^$/ }, args.join(' '))
  }
})

t.test('help prints the help of a command', async (t) => {
  const { stdout } = await ingest(['keys', 'rotate', '--help'])
  t.match(stdout, /^Usage: ingest keys rotate <keyId> --store <store> --project <id> \[options\]\n/)
  for (const args of [
    ['help', 'keys', 'rotate'],
    ['keys', 'help', 'rotate'],
    ['help', 'keys', 'rotate', 'vbxtzdc2'],
  ]) {
    t.strictSame(await ingest(args), { code: 0, signal: null, stdout, stderr: '' }, args.join(' '))
  }
  t.equal((await ingest(['help', 'keys'])).stdout, (await ingest(['keys'])).stdout)
})

t.test('an unknown command is wrong usage, with a suggestion', async (t) => {
  for (const args of [['serv'], ['serv', '--store', 'x'], ['serv', '--help'], ['help', 'serv']]) {
    await isWrongUsage(t, args, /unknown command 'serv' \(Did you mean serve\?\)/)
  }
  await isWrongUsage(t, ['keys', 'rot'], /unknown command 'rot' \(Did you mean rotate\?\)/)
  await isWrongUsage(t, ['help', 'keys', 'rot'], /unknown command 'rot' \(Did you mean rotate\?\)/)
  await isWrongUsage(t, ['xyzzy'], /unknown command 'xyzzy'/)
})

t.test('a missing option or argument is named', async (t) => {
  for (const [args, missing] of [
    [['send', '--project', 'p', '--store', 'd'], "missing required argument 'file'"],
    [['send', 'events.ndjson', '--store', 'd'], "required option '--project <id>' not specified"],
    [['send', 'events.ndjson', '--project', 'p'], 'name a server with --url or INGEST_URL, or a store with --store'],
    [['keys', 'revoke', '--project', 'p', '--store', 'd'], "missing required argument 'keyId'"],
    [['serve'], "required option '--store <store>' not specified"],
    [['copy', '--from', 'd'], "required option '--to <store>' not specified"],
    [['migrate'], 'name the database with --store'],
  ] as const) {
    await isWrongUsage(t, args, new RegExp(missing))
  }
})

/** Every command and subcommand. */
function commandsOf(command: Command, words: string[] = []): { command: Command; words: string[] }[] {
  if (command.commands.length === 0) return [{ command, words }]
  return [{ command, words }, ...command.commands.flatMap((each) => commandsOf(each, [...words, each.name()]))]
}

t.test('the examples in each help are valid command lines', async (t) => {
  for (const { words } of commandsOf(createProgram(createIo().io))) {
    const { stdout } = await ingest([...words, '--help'])
    const examples = stdout.split(/^(?:Examples?|Start here):$/m)[1] ?? ''
    const lines = Array.from(examples.matchAll(/^ {2}(?:.* \| |\w+=\S+ )?ingest (.*)$/gm), ([, line = '']) => line)
    t.not(lines.length, 0, `ingest ${words.join(' ')} has an example`)
    for (const line of lines) {
      const program = createProgram(createIo().io)
      for (const { command } of commandsOf(program)) if (command.commands.length === 0) command.action(() => {})
      await t.resolves(program.parseAsync(line.replace(/ > .*/, '').split(' '), { from: 'user' }), line)
    }
  }
})

t.test('the usage line has arguments before options', async (t) => {
  for (const { command, words } of commandsOf(createProgram(createIo().io))) {
    const { stdout } = await ingest([...words, '--help'])
    t.match(stdout, /^Usage: ingest [a-z -]*(<\w+> )*([-<(][^\n]* )?\[options\]\n/, words.join(' '))
    t.match(command.description(), /^\S/)
  }
})

t.test('the environment is a parameter, not process.env', async (t) => {
  process.env.INGEST_STORE = t.testdir()
  t.teardown(() => {
    delete process.env.INGEST_STORE
  })
  await isWrongUsage(t, ['serve'], /required option '--store <store>' not specified/)
  await isWrongUsage(t, ['serve', '--listen', 'x'], /'--listen <address>' argument 'x' is invalid/)
})

t.test('an unknown option is wrong usage', async (t) => {
  const data = t.testdir()
  await isWrongUsage(t, ['--verbose'], /unknown option '--verbose'/)
  t.match(await ingest(['keys', '--json']), { code: 2, stdout: /^\{"ok":false/, stderr: /unknown option '--json'/ })
  for (const command of [['serve'], ['export', '--project', 'p'], ['keys', 'list', '--project', 'p']]) {
    await isWrongUsage(t, [...command, '--store', data, '--verbose'], /unknown option '--verbose'/)
  }
  await isWrongUsage(
    t,
    ['serve', '--store', data, '--liste', '0'],
    /unknown option '--liste' \(Did you mean --listen\?\)/,
  )
})

t.test('too many arguments, or a missing value, are wrong usage', async (t) => {
  const data = t.testdir()
  await isWrongUsage(t, ['serve', '--store', data, 'extra'], /too many arguments/)
  await isWrongUsage(t, ['serve', '--store'], /--store <store>' argument missing/)
  await isWrongUsage(t, ['keys', 'revoke', '--store', data, '--project', 'p'], /missing required argument 'keyId'/)
})
