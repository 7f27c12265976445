import { spawnSync } from 'node:child_process'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import t, { type Test } from 'tap'
import { ingestCommand, ownEnvironment } from '../ingest-process.ts'
import { ingest, isWrongUse } from '../run-ingest.ts'

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
  t.match((await ingest(['completion', '--', 'fi'])).stdout, /^find\tsay whether an event is stored/)
  t.equal((await ingest(['completion', '--', 'publish-map', ''])).stdout, '', 'the shell looks for files')
})

t.test('a shell that there is no script for is wrong use', async (t) => {
  await isWrongUse(t, ['completion', 'tcsh'], /Allowed choices are bash, zsh, fish, powershell/)
  await isWrongUse(t, ['completion'], /missing <shell>/)
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
