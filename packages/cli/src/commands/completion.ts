import { Argument, Command, type Option } from 'commander'
import { type Io, writeStdout } from '../io.ts'

/** A completion of the last word. */
export interface Suggestion {
  value: string
  description: string
}

/**
 * Completes the last of these words, which may be empty, with commands, options, or the choices of an option or an
 * argument. Returns nothing where any text is allowed, such as a file name. The words are those after the program name;
 * a shell may have split `--option=value`.
 */
export function completeWords(program: Command, words: readonly string[]): Suggestion[] {
  const parts = words.filter((word) => word !== '=')
  const current = words.at(-1) === '=' ? '' : (parts.pop() ?? '')
  let command = program
  let operands = 0
  let pending: Option | undefined
  for (const word of parts) {
    const child = command.commands.find((each) => each.name() === word || each.aliases().includes(word))
    if (pending) pending = undefined
    else if (word.startsWith('-')) pending = findOption(command, word)
    else if (child && operands === 0) command = child
    // `help` is followed by a command name
    else if (word !== 'help' || operands > 0) operands++
  }
  return listSuggestions(command, operands, pending, current).filter(({ value }) => value.startsWith(current))
}

/** The option of that name, if it takes a value. */
function findOption(command: Command, word: string): Option | undefined {
  const named = command.options.find(({ long, short }) => long === word || short === word)
  return named?.required || named?.optional ? named : undefined
}

function listSuggestions(
  command: Command,
  operands: number,
  pending: Option | undefined,
  current: string,
): Suggestion[] {
  const help = command.createHelp()
  const [name = '', value] = current.split('=')
  if (pending) return toSuggestions(pending.argChoices)
  if (current.startsWith('-') && value !== undefined)
    return toSuggestions(findOption(command, name)?.argChoices, `${name}=`)
  if (current.startsWith('-')) {
    return help.visibleOptions(command).map(({ long, description }) => ({ value: long ?? '', description }))
  }
  if (command.commands.length > 0 && operands === 0) {
    return help.visibleCommands(command).map((each) => ({ value: each.name(), description: each.description() }))
  }
  return toSuggestions(command.registeredArguments[operands]?.argChoices)
}

function toSuggestions(values: readonly string[] = [], prefix = ''): Suggestion[] {
  return values.map((value) => ({ value: `${prefix}${value}`, description: '' }))
}

/** `ingest completion <shell>`. */
export function completionCommand(io: Io): Command {
  const shells = Object.keys(scripts)
  return new Command('completion')
    .description('print a completion script for a shell')
    .addArgument(new Argument('<shell>', 'the shell').choices(shells))
    .addHelpText('after', completionHelp)
    .action(async (shell: string) => {
      await writeStdout(io, scripts[shell] as string)
    })
}

const completionHelp = `
Where to load the script:
  bash        source <(ingest completion bash)          in ~/.bashrc
  zsh         source <(ingest completion zsh)           in ~/.zshrc, after compinit
  fish        ingest completion fish | source           in ~/.config/fish/config.fish
  powershell  ingest completion powershell | Out-String | Invoke-Expression     in $PROFILE

Example:
  ingest completion bash
`

/** The words to complete, if the command line is the request of a completion script. */
export function wordsToComplete([command, separator, ...words]: readonly string[]): readonly string[] | undefined {
  return command === 'completion' && separator === '--' ? words : undefined
}

/** Prints one completion per line, with a tab before its description. */
export async function writeSuggestions(io: Io, program: Command, words: readonly string[]): Promise<void> {
  const suggestions = completeWords(program, words)
  const lines = suggestions.map(({ value, description }) => (description === '' ? value : `${value}\t${description}`))
  await writeStdout(io, lines.map((line) => `${line}\n`).join(''))
}

// The words are passed as arguments, never through `eval`: completing a line must not run it or redirect to its files.
// Without suggestions, the scripts complete file names.

const scripts: Readonly<Record<string, string>> = {
  bash: `# completion of ingest for bash
_ingest() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    COMPREPLY+=("\${line%%$'\\t'*}")
  done < <(ingest completion -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _ingest ingest
`,

  zsh: `#compdef ingest
# completion of ingest for zsh
_ingest() {
  local line
  local -a found
  while IFS= read -r line; do
    # a colon stands before a description, and a backslash before any other colon
    found+=("\${\${line//:/\\\\:}/$'\\t'/:}")
  done < <(ingest completion -- "\${(@Q)words[2,CURRENT]}" 2>/dev/null)
  if (( \${#found} )); then _describe ingest found; else _files; fi
}
if [[ "\${funcstack[1]}" = _ingest ]]; then _ingest "$@"; else compdef _ingest ingest; fi
`,

  fish: `# completion of ingest for fish
function __ingest_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  set -l found (ingest completion -- $words[2..-1] "$current" 2>/dev/null)
  if test (count $found) -gt 0
    printf '%s\\n' $found
  else
    __fish_complete_path "$current"
  end
end
complete -c ingest -f -a '(__ingest_complete)'
`,

  powershell: `# completion of ingest for PowerShell
Register-ArgumentCompleter -Native -CommandName ingest -ScriptBlock {
  param($wordToComplete, $commandAst, $cursorPosition)
  $words = @($commandAst.CommandElements | Select-Object -Skip 1 |
    Where-Object { $_.Extent.StartOffset -lt $cursorPosition } | ForEach-Object { "$_" })
  # before 7.3, an empty argument has to be quoted once more
  if ($wordToComplete -eq '') { $words += if ($PSVersionTable.PSVersion -lt [version]'7.3') { '""' } else { '' } }
  ingest completion '--' @words 2>$null | ForEach-Object {
    $value, $description = $_ -split "\`t", 2
    if (-not $description) { $description = $value }
    [System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $description)
  }
}
`,
}
