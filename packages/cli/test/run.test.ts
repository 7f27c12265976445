import { readFileSync } from 'node:fs'
import t from 'tap'
import { ingest, isWrongUse } from './run-ingest.ts'

t.test('--help names every command and every exit code', async (t) => {
  for (const args of [['--help'], ['-h'], ['help']]) {
    const { code, stdout, stderr } = await ingest(args)
    t.match({ code, stderr }, { code: 0, stderr: /^$/ })
    const words = ['serve', 'keys', 'send', 'check', 'export', 'find', 'stats', 'publish-map', 'maps', 'completion']
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
        '--host',
        '--port',
        '--rate-limit',
        '--map-rate-limit',
        '--publication-limit',
        '--log-level',
        'SIGTERM',
      ],
    ],
    [['keys'], ['create', 'list', 'revoke', 'rotate']],
    [
      ['keys', 'create'],
      ['--data', '--project', '--scope', '--expires'],
    ],
    [
      ['keys', 'list'],
      ['--data', '--project', '--json'],
    ],
    [
      ['keys', 'revoke'],
      ['<keyId>', '--data', '--project'],
    ],
    [
      ['keys', 'rotate'],
      ['<keyId>', '--data', '--project', '--overlap'],
    ],
    [
      ['export'],
      ['--url', '--data', '--project', '--key-file', '--after', '--limit', '--output', '--every', '--max-size'].concat([
        '--type',
        '--build',
        '--from',
        '--to',
        '--format',
        '--gzip',
        '--cursor-file',
        '--json',
      ]),
    ],
    [['find'], ['<eventId>', '--url', '--data', '--project', '--json', 'exit code 3']],
    [['stats'], ['--url', '--data', '--project', '--builds', '--json', 'all projects']],
    [['completion'], ['<shell>', 'bash', 'zsh', 'fish', 'powershell', '.bashrc']],
    [
      ['publish-map'],
      ['<file>', '--place', '--build', '--url', '--data', '--project', '--key-file', '--retries', '--timeout']
        .concat(['--content-type', '--if-absent', '--expect', '--on-frozen', '--dry-run', '--concurrency'])
        .concat(['--json', '--quiet', 'INGEST_KEY', 'Exit code 0']),
    ],
    [
      ['send'],
      [
        '<file>',
        '--url',
        '--data',
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
      ['--place', '--build', '--url', '--data', '--output'],
    ],
    [
      ['maps', 'verify'],
      ['--place', '--build', '--url', '--data', '--file'],
    ],
  ]
  for (const [command, words] of options) {
    const { code, stdout, stderr } = await ingest([...command, '--help'])
    t.match({ code, stderr }, { code: 0, stderr: /^$/ })
    for (const word of words) t.match(stdout, word, `${command.join(' ')} ${word}`)
    t.notMatch(stdout, /\n\n\n/, `${command.join(' ')} has one empty line at a time`)
  }
})

t.test('--version is that of the package', async (t) => {
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
  for (const flag of ['--version', '-V']) {
    t.strictSame(await ingest([flag]), { code: 0, signal: null, stdout: `${version}\n`, stderr: '' })
  }
})

t.test('no command, or one that there is not, is wrong use', async (t) => {
  await isWrongUse(t, [], /name a command: ingest --help/)
  await isWrongUse(t, ['sevre'], /unknown command 'sevre'/)
  await isWrongUse(t, ['sevre', '--data', 'x'], /unknown command 'sevre'/)
  await isWrongUse(t, ['keys'], /name a command: ingest keys --help/)
  await isWrongUse(t, ['keys', 'make'], /unknown command 'make'/)
})

t.test('an option that there is not is wrong use', async (t) => {
  const data = t.testdir()
  await isWrongUse(t, ['--verbose'], /unknown option '--verbose'/)
  await isWrongUse(t, ['keys', '--json'], /unknown option '--json'/)
  for (const command of [['serve'], ['export', '--project', 'p'], ['keys', 'list', '--project', 'p']]) {
    await isWrongUse(t, [...command, '--data', data, '--verbose'], /unknown option '--verbose'/)
  }
  await isWrongUse(t, ['serve', '--data', data, '--prot', '0'], /unknown option '--prot' \(Did you mean --port\?\)/)
})

t.test('an argument too many, or a value too few, is wrong use', async (t) => {
  const data = t.testdir()
  await isWrongUse(t, ['serve', '--data', data, 'extra'], /too many arguments/)
  await isWrongUse(t, ['serve', '--data'], /--data <dir>' argument missing/)
  await isWrongUse(t, ['keys', 'revoke', '--data', data, '--project', 'p'], /missing <keyId>/)
})
