import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import t from 'tap'
import { createProgram } from '../src/program.ts'
import { createIo, ingest, isWrongUsage } from './run-ingest.ts'

t.test('--help names every command and every exit code', async (t) => {
  for (const args of [['--help'], ['-h'], ['help']]) {
    const { code, stdout, stderr } = await ingest(args)
    t.match({ code, stderr }, { code: 0, stderr: /^$/ })
    const words = [
      'serve',
      'keys',
      'send',
      'check',
      'export',
      'find',
      'stats',
      'publish-map',
      'maps',
      'copy',
      'migrate',
      'completion',
    ]
    for (const word of [...words, 'Exit codes:']) t.match(stdout, word)
    for (const exitCode of [0, 1, 2, 3, 4, 5, 6, 7]) t.match(stdout, new RegExp(`^  ${exitCode}  \\w`, 'm'))
  }
})

t.test('--help of a command names its options', async (t) => {
  const options: [string[], string[]][] = [
    [
      ['serve'],
      [
        '--data',
        '--store',
        '--host',
        '--port',
        '--rate-limit',
        '--map-rate-limit',
        '--publication-limit',
        '--pending-map-limit',
        '--log-level',
        'SIGTERM',
      ],
    ],
    [['keys'], ['create', 'list', 'revoke', 'rotate']],
    [
      ['keys', 'create'],
      ['--data', '--store', '--project', '--scope', '--expires'],
    ],
    [
      ['keys', 'list'],
      ['--data', '--store', '--project', '--json'],
    ],
    [
      ['keys', 'revoke'],
      ['<keyId>', '--data', '--store', '--project'],
    ],
    [
      ['keys', 'rotate'],
      ['<keyId>', '--data', '--store', '--project', '--overlap'],
    ],
    [
      ['export'],
      [
        '--url',
        '--data',
        '--store',
        '--project',
        '--key-file',
        '--after',
        '--limit',
        '--output',
        '--every',
        '--max-size',
      ].concat(['--type', '--build', '--from', '--to', '--format', '--gzip', '--cursor-file', '--json']),
    ],
    [['find'], ['<eventId>', '--url', '--data', '--store', '--project', '--json', 'Exit code 3']],
    [['stats'], ['--url', '--data', '--store', '--project', '--builds', '--json', 'all projects']],
    [['copy'], ['--from', '--to', '--project', '--json', '--quiet', 'INGEST_FROM', 'Exit code 3']],
    [['migrate'], ['--store', '--print', '--grant-to', '--key-partitions', '--new-epoch', '--json', 'INGEST_STORE']],
    [['completion'], ['<shell>', 'bash', 'zsh', 'fish', 'powershell', '.bashrc']],
    [
      ['publish-map'],
      [
        '<file>',
        '--place',
        '--build',
        '--url',
        '--data',
        '--store',
        '--project',
        '--key-file',
        '--retries',
        '--timeout',
      ]
        .concat(['--content-type', '--if-absent', '--expect', '--on-frozen', '--dry-run', '--concurrency'])
        .concat(['--json', '--quiet', 'INGEST_KEY', 'Exit code 0']),
    ],
    [
      ['send'],
      [
        '<file>',
        '--url',
        '--data',
        '--store',
        '--project',
        '--key-file',
        '--retries',
        '--timeout',
        '--make-ids',
        '--rejected',
      ].concat(['--concurrency', '--json', '--quiet', 'INGEST_KEY', 'Exit code 0']),
    ],
    [['check'], ['<file>', '--project', '--make-ids', '--rejected', '--json', '--quiet', 'Exit code 0']],
    [['maps'], ['list', 'show', 'download', 'verify']],
    [
      ['maps', 'download'],
      ['--place', '--build', '--url', '--data', '--store', '--output'],
    ],
    [
      ['maps', 'verify'],
      ['--place', '--build', '--url', '--data', '--store', '--file'],
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
  t.match(stdout, /^Usage: ingest keys rotate <keyId> \(--data <dir> \| --store <store>\) --project <id> \[options\]\n/)
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
  for (const args of [['serv'], ['serv', '--data', 'x'], ['serv', '--help'], ['help', 'serv']]) {
    await isWrongUsage(t, args, /unknown command 'serv' \(Did you mean serve\?\)/)
  }
  await isWrongUsage(t, ['keys', 'rot'], /unknown command 'rot' \(Did you mean rotate\?\)/)
  await isWrongUsage(t, ['help', 'keys', 'rot'], /unknown command 'rot' \(Did you mean rotate\?\)/)
  await isWrongUsage(t, ['xyzzy'], /unknown command 'xyzzy'/)
})

t.test('all missing options are named at once, with their variables', async (t) => {
  const [project, target] = [
    '--project <id> \\(or INGEST_PROJECT_ID\\)',
    '--url <url> \\(or INGEST_URL\\) or --data <dir> \\(or INGEST_DATA\\) or --store <store> \\(or INGEST_STORE\\)',
  ]
  const store = '--data <dir> \\(or INGEST_DATA\\) or --store <store> \\(or INGEST_STORE\\)'
  for (const [args, missing] of [
    [['send'], `<file>, ${project}, ${target}`],
    [['publish-map'], `<file>, --place <id>, --build <id>, ${project}, ${target}`],
    [['publish-map', 'map.json', '--place', '1', '--data', 'd'], `--build <id>, ${project}:`],
    [['keys', 'revoke'], `<keyId>, ${project}, ${store}:`],
    [['serve'], `${store}: see \`ingest serve --help\` for an example`],
    [['copy'], '--from <store> \\(or INGEST_FROM\\), --to <store> \\(or INGEST_TO\\):'],
    [['migrate'], '--store <url> \\(or INGEST_STORE\\):'],
  ] as const) {
    await isWrongUsage(t, args, new RegExp(`missing ${missing}`))
  }
  await isWrongUsage(t, ['send'], /missing <file>: see `ingest send --help`/, {
    env: { INGEST_PROJECT_ID: 'demo', INGEST_DATA: 'd' },
  })
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

t.test('help marks required options, and prints arguments before options', async (t) => {
  for (const { command, words } of commandsOf(createProgram(createIo().io))) {
    const { stdout } = await ingest([...words, '--help'])
    t.match(stdout, /^Usage: ingest [a-z -]*(<\w+> )*([-<(][^\n]* )?\[options\]\n/, words.join(' '))
    const data = stdout.match(/^ {2}--data <dir>(.|\n {4,})*/m)?.[0].replaceAll(/\s+/g, ' ')
    if (data !== undefined) t.match(data, /required/, words.join(' '))
    t.match(command.description(), /^\S/)
  }
})

t.test('the environment is a parameter, not process.env', async (t) => {
  process.env.INGEST_DATA = t.testdir()
  t.teardown(() => {
    delete process.env.INGEST_DATA
  })
  await isWrongUsage(t, ['serve'], /missing --data <dir>/)
  await isWrongUsage(t, ['serve', '--port', 'x'], /'--port <n>' argument 'x' is invalid/)
})

t.test('an unknown option is wrong usage', async (t) => {
  const data = t.testdir()
  await isWrongUsage(t, ['--verbose'], /unknown option '--verbose'/)
  t.match(await ingest(['keys', '--json']), { code: 2, stdout: /^\{"ok":false/, stderr: /unknown option '--json'/ })
  for (const command of [['serve'], ['export', '--project', 'p'], ['keys', 'list', '--project', 'p']]) {
    await isWrongUsage(t, [...command, '--data', data, '--verbose'], /unknown option '--verbose'/)
  }
  await isWrongUsage(t, ['serve', '--data', data, '--prot', '0'], /unknown option '--prot' \(Did you mean --port\?\)/)
})

t.test('too many arguments, or a missing value, are wrong usage', async (t) => {
  const data = t.testdir()
  await isWrongUsage(t, ['serve', '--data', data, 'extra'], /too many arguments/)
  await isWrongUsage(t, ['serve', '--data'], /--data <dir>' argument missing/)
  await isWrongUsage(t, ['keys', 'revoke', '--data', data, '--project', 'p'], /missing <keyId>/)
})
