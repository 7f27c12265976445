import type { Command, Option } from 'commander'

/** What a word may become, and what that is. */
export interface Suggestion {
  value: string
  description: string
}

/**
 * What the last of these words, which may be empty, can become: a command, an option, or one of the choices of an option
 * or an argument. Nothing where anything may stand, such as the name of a file. The words are those behind the name of
 * the program, as they are typed; a shell may have taken `--option=value` apart.
 */
export function completeWords(program: Command, words: readonly string[]): Suggestion[] {
  const parts = words.filter((word) => word !== '=')
  const current = words.at(-1) === '=' ? '' : (parts.pop() ?? '')
  let command = program
  let operands = 0
  let waiting: Option | undefined
  for (const word of parts) {
    const child = command.commands.find((each) => each.name() === word || each.aliases().includes(word))
    if (waiting) waiting = undefined
    else if (word.startsWith('-')) waiting = optionOf(command, word)
    else if (child && operands === 0) command = child
    // `help` stands before the commands that it tells of
    else if (word !== 'help' || operands > 0) operands++
  }
  return suggestionsOf(command, operands, waiting, current).filter(({ value }) => value.startsWith(current))
}

/** The option that takes the next word for its value. */
function optionOf(command: Command, word: string): Option | undefined {
  const named = command.options.find(({ long, short }) => long === word || short === word)
  return named?.required || named?.optional ? named : undefined
}

function suggestionsOf(command: Command, operands: number, waiting: Option | undefined, current: string): Suggestion[] {
  const help = command.createHelp()
  const [name = '', value] = current.split('=')
  if (waiting) return choices(waiting.argChoices)
  if (current.startsWith('-') && value !== undefined) return choices(optionOf(command, name)?.argChoices, `${name}=`)
  if (current.startsWith('-')) {
    return help.visibleOptions(command).map(({ long, description }) => ({ value: long ?? '', description }))
  }
  if (command.commands.length > 0 && operands === 0) {
    return help.visibleCommands(command).map((each) => ({ value: each.name(), description: each.description() }))
  }
  return choices(command.registeredArguments[operands]?.argChoices)
}

function choices(values: readonly string[] = [], prefix = ''): Suggestion[] {
  return values.map((value) => ({ value: `${prefix}${value}`, description: '' }))
}
