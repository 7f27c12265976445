import { spawnSync } from 'node:child_process'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { Argument, Command, Option } from 'commander'
import t, { type Test } from 'tap'
import { completeWords } from '../../src/commands/completion.ts'
import { ingestCommand, ownEnvironment } from '../ingest-process.ts'
import { ingest, isWrongUsage } from '../run-ingest.ts'

const program = new Command('ingest').option('-v, --version', 'say which')
const publish = new Command('publish-map')
  .description('publish a map')
  .argument('<file>')
  .addArgument(new Argument('[how]', '').choices(['well', 'fast']))
  .addOption(new Option('--on-frozen <what>', 'what then').choices(['fail', 'warn']))
  .option('--place <id>', 'where')
  .option('-j, --json', 'an object')
  .addOption(new Option('--secret').hideHelp())
const maps = new Command('maps').description('look at maps')
maps.command('list').description('all of them').alias('ls').option('--json', 'lines')
maps.command('show').option('--on-frozen <what>', 'something else')
program.addCommand(publish).addCommand(maps).addCommand(new Command('hidden'), { hidden: true })

const valuesOf = (...words: string[]) => completeWords(program, words).map(({ value }) => value)

t.test('commands are suggested, and their commands', async (t) => {
  t.strictSame(completeWords(program, ['m']), [{ value: 'maps', description: 'look at maps' }])
  t.strictSame(valuesOf(''), ['publish-map', 'maps', 'help'])
  t.strictSame(valuesOf(), ['publish-map', 'maps', 'help'])
  t.strictSame(valuesOf('maps', ''), ['list', 'show', 'help'])
  t.strictSame(valuesOf('maps', 'l'), ['list'])
  t.strictSame(valuesOf('help', ''), ['publish-map', 'maps', 'help'])
  t.strictSame(valuesOf('help', 'maps', 's'), ['show'])
  t.strictSame(valuesOf('x'), [])
  t.strictSame(valuesOf('x', ''), [])
})

t.test('options of the command are suggested, except secrets', async (t) => {
  t.strictSame(completeWords(program, ['publish-map', '--j']), [{ value: '--json', description: 'an object' }])
  t.strictSame(valuesOf('publish-map', '-'), ['--on-frozen', '--place', '--json', '--help'])
  t.strictSame(valuesOf('publish-map', 'map.json', '--'), ['--on-frozen', '--place', '--json', '--help'])
  t.strictSame(valuesOf('maps', 'ls', '-'), ['--json', '--help'])
  t.strictSame(valuesOf('--'), ['--version', '--help'])
})

t.test('choices of an option are suggested, in each way to write it', async (t) => {
  t.strictSame(valuesOf('publish-map', '--on-frozen', ''), ['fail', 'warn'])
  t.strictSame(valuesOf('publish-map', '--on-frozen', 'w'), ['warn'])
  t.strictSame(valuesOf('publish-map', '--on-frozen='), ['--on-frozen=fail', '--on-frozen=warn'])
  t.strictSame(valuesOf('publish-map', '--on-frozen=f'), ['--on-frozen=fail'])
  t.strictSame(valuesOf('publish-map', '--on-frozen', '='), ['fail', 'warn'], 'as bash takes it apart')
  t.strictSame(valuesOf('publish-map', '--on-frozen', '=', 'f'), ['fail'])
  t.strictSame(valuesOf('maps', 'show', '--on-frozen', ''), [], 'the option of another command')
})

t.test('choices of an argument are suggested', async (t) => {
  t.strictSame(valuesOf('publish-map', 'map.json', ''), ['well', 'fast'])
  t.strictSame(valuesOf('publish-map', '--place', 'a', '--json', 'map.json', 'w'), ['well'])
  t.strictSame(valuesOf('publish-map', '--place=a', 'map.json', 'w'), ['well'])
})

t.test('where any text is allowed, nothing is suggested', async (t) => {
  t.strictSame(valuesOf('publish-map', ''), [])
  t.strictSame(valuesOf('publish-map', '--place', ''), [])
  t.strictSame(valuesOf('publish-map', '--place='), [])
  t.strictSame(valuesOf('publish-map', 'map.json', 'well', ''), [])
})

/** Command lines, their words up to the one that is completed, and what that may become. */
const lines: [words: string[], suggestions: string[]][] = [
  [['ma'], ['maps']],
  [
    ['maps', ''],
    ['list', 'show', 'download', 'verify', 'help'],
  ],
  [['publish-map', '--on-frozen', 'w'], ['warn']],
  [['stats', '--bu'], ['--builds']],
  [['completion', 'f'], ['fish']],
]

/** Words that a shell would run, or write to, if it took them for more than words. */
const harmful = ['export', '>', 'kept', '--data', '$(touch ran)', '--af']

t.test('the command completes the words that it is given', async (t) => {
  for (const [words, suggestions] of lines) {
    const { code, stdout, stderr } = await ingest(['completion', '--', ...words])
    t.strictSame({ code, stderr }, { code: 0, stderr: '' })
    t.strictSame(
      stdout
        .split('\n')
        .filter(Boolean)
        .map((line) => line.split('\t')[0]),
      suggestions,
    )
  }
  t.match((await ingest(['completion', '--', 'fi'])).stdout, /^find\tprint a stored event/)
  t.equal((await ingest(['completion', '--', 'publish-map', ''])).stdout, '', 'the shell looks for files')
})

t.test('an unsupported shell is wrong usage', async (t) => {
  await isWrongUsage(t, ['completion', 'tcsh'], /Allowed choices are bash, zsh, fish, powershell/)
  await isWrongUsage(t, ['completion'], /missing <shell>/)
})

t.test('the script for PowerShell completes ingest', async (t) => {
  const { code, stdout } = await ingest(['completion', 'powershell'])
  t.equal(code, 0)
  t.match(stdout, /^Register-ArgumentCompleter -Native -CommandName ingest /m)
})

/** Runs a script of a shell where `ingest` is the built command and `kept` a file. */
function shell(t: Test, name: string, args: string[]): { stdout: string; directory: string } {
  const directory = t.testdir({ kept: 'as it was', bin: {} })
  const [node, binary] = ingestCommand([]).slice(-2)
  const command = join(directory, 'bin', 'ingest')
  writeFileSync(command, `#!/bin/sh\nunset NODE_OPTIONS\nexec '${node}' '${binary}' "$@"\n`)
  chmodSync(command, 0o755)
  const env = { ...ownEnvironment(), PATH: `${join(directory, 'bin')}${delimiter}${process.env.PATH}`, HOME: directory }
  const { status, stdout, stderr } = spawnSync(name, args, { cwd: directory, env, encoding: 'utf8' })
  t.strictSame({ status, stderr }, { status: 0, stderr: '' })
  return { stdout, directory }
}

/** How each shell is asked, without a terminal, what it would suggest. */
const shells: Record<string, (words: string[]) => string[]> = {
  bash: (words) => [
    '--norc',
    '-c',
    `source <(ingest completion bash); COMP_WORDS=(ingest "$@"); COMP_CWORD=$#; _ingest; printf "%s\n" "\${COMPREPLY[@]}"`,
    'bash',
    ...words,
  ],
  // what it does with suggestions is a function of its own, which needs a terminal
  zsh: (words) => [
    '-f',
    '-c',
    `compdef() {}; _files() { print files }; _describe() { print -l -- "\${(@)\${(P@)2}%%:*}" }
    source <(ingest completion zsh); words=(ingest "$@"); CURRENT=\${#words}; _ingest`,
    'zsh',
    ...words,
  ],
  fish: (words) => ['--no-config', '-c', `ingest completion fish | source; complete -C 'ingest ${words.join(' ')}'`],
}

for (const [name, argsFor] of Object.entries(shells)) {
  const isThere = spawnSync(name, ['-c', 'true']).status === 0
  t.test(`${name} completes by its script`, { skip: isThere ? false : `no ${name} here` }, async (t) => {
    const suggestions = (words: string[]) => {
      const { stdout } = shell(t, name, argsFor(words))
      return stdout
        .split('\n')
        .filter(Boolean)
        .map((line) => line.split('\t')[0])
        .sort()
    }
    for (const [words, expected] of lines) t.strictSame(suggestions(words), expected.toSorted(), words.join(' '))
  })

  t.test(
    `${name} runs nothing and writes nothing to complete`,
    { skip: isThere ? false : `no ${name} here` },
    async (t) => {
      const { stdout, directory } = shell(t, name, argsFor(harmful))
      t.match(stdout, /^--after\b/)
      t.equal(readFileSync(join(directory, 'kept'), 'utf8'), 'as it was')
      t.throws(() => readFileSync(join(directory, 'ran')), { code: 'ENOENT' })
    },
  )
}
