import { styleText } from 'node:util'
import { Command, CommanderError, type Option } from 'commander'
import { backupCommand } from './commands/backup.ts'
import { conformanceCommand } from './commands/conformance.ts'
import { consumersCommand } from './commands/consumers.ts'
import { copyCommand } from './commands/copy.ts'
import { eraseCommand } from './commands/erase.ts'
import { exportCommand } from './commands/export.ts'
import { findCommand } from './commands/find.ts'
import { keysCommand } from './commands/keys.ts'
import { mapsCommand } from './commands/maps.ts'
import { migrateCommand } from './commands/migrate.ts'
import { publishMapCommand } from './commands/publish-map.ts'
import { rejectedCommand } from './commands/rejected.ts'
import { repairCommand } from './commands/repair.ts'
import { restoreCommand } from './commands/restore.ts'
import { sendCommand } from './commands/send.ts'
import { serveCommand } from './commands/serve.ts'
import { statsCommand } from './commands/stats.ts'
import { tailCommand } from './commands/tail.ts'
import { verifyCommand } from './commands/verify.ts'
import { exitCodeHelp } from './exit-code.ts'
import { hasColors, type Io } from './io.ts'
import { version } from './version.ts'

/** The program with all its commands. Commands throw failures; the caller reports them. */
export function createProgram(io: Io): Command {
  const program = new Command('ingest')
    .description('Stores batches of game events durably and exactly once, and publishes the maps of game builds.')
    .version(version())
    .addHelpText('after', programHelp)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void io.stdout.write(text),
      writeErr: () => {},
      outputError: () => {},
      getOutHelpWidth: () => (io.stdout.isTTY ? (io.stdout.columns ?? 80) : 100),
      getOutHasColors: () => hasColors(io.stdout, io.env),
    })
    .configureHelp({
      styleTitle: (title) => styleText('bold', title, { validateStream: false }),
      commandUsage,
      subcommandTerm: (command) => [command.name(), ...argumentTerms(command)].join(' '),
    })
  const commands = [
    serveCommand(io),
    keysCommand(io),
    sendCommand(io),
    exportCommand(io),
    tailCommand(io),
    findCommand(io),
    statsCommand(io),
    consumersCommand(io),
    rejectedCommand(io),
    publishMapCommand(io),
    mapsCommand(io),
    copyCommand(io),
    eraseCommand(io),
    migrateCommand(io),
    backupCommand(io),
    restoreCommand(io),
    verifyCommand(io),
    repairCommand(io),
    conformanceCommand(io),
  ]
  for (const command of commands) program.addCommand(adopt(command, program))
  return program
}

const programHelp = `
\`ingest help <command>\` and \`ingest <command> --help\` show the options of a command and examples.

Start here:
  ingest keys create --store data/games --project demo
  ingest serve --store data/games
${exitCodeHelp}`

/** Copies the settings of the parent, which commands that are created separately do not inherit. */
function adopt(command: Command, parent: Command): Command {
  command.copyInheritedSettings(parent).exitOverride()
  reportUnknownOptionsFirst(command)
  if (command.commands.length > 0) command.helpCommand(true)
  for (const child of command.commands) adopt(child, command)
  return command
}

/** Commander reports a missing option before an unknown one, which may be a misspelling of it. */
function reportUnknownOptionsFirst(command: Command): void {
  const report = command.error.bind(command)
  command.error = (message, options) => {
    const isMissing = options?.code === 'commander.missingMandatoryOptionValue'
    // without its value, which may be secret
    const unknown = command.args.find((each) => /^--?\w/.test(each))?.replace(/=.*/s, '')
    if (!isMissing || unknown === undefined) return report(message, options)
    // commander's types lack this method; it suggests a similar option
    return (command as Command & { unknownOption(flag: string): never }).unknownOption(unknown)
  }
}

/** The usage line: arguments, required options, then `[options]`. */
function commandUsage(command: Command): string {
  const names = [command.name()]
  for (let parent = command.parent; parent; parent = parent.parent) names.unshift(parent.name())
  const required = command.options.filter((option) => option.mandatory).map(({ flags }) => flags)
  const target = command.options.filter(({ long, hidden }) => !hidden && (long === '--url' || long === '--store'))
  if (target.length > 1) required.unshift(`(${target.map(({ flags }) => flags).join(' | ')})`)
  const isGroup = command.commands.length > 0
  return [...names, ...argumentTerms(command), ...(isGroup ? ['<command>'] : []), ...required, '[options]'].join(' ')
}

function argumentTerms(command: Command): string[] {
  return command.registeredArguments.map((argument) => `<${argument.name()}>`)
}

/**
 * Parses a command line and runs its action. Commander reads `env` instead of the variables of the process. An empty
 * variable counts as unset, and a switch must be `true` or `false`.
 */
export function parseCommandLine(program: Command, args: readonly string[], env: Io['env']): Promise<Command> {
  const variables = process.env
  process.env = { ...env }
  try {
    for (const option of listOptions(program)) dropUnset(option, process.env)
    return program.parseAsync(normalizeArgs(program, args), { from: 'user' })
  } finally {
    process.env = variables
  }
}

function listOptions({ options, commands }: Command): Option[] {
  return [...options, ...commands.flatMap(listOptions)]
}

function dropUnset(option: Option, env: NodeJS.ProcessEnv): void {
  const { envVar } = option
  const text = envVar && env[envVar]
  if (text === '' || (text === 'false' && isSwitch(option))) delete env[envVar as string]
  else if (text !== undefined && text !== 'true' && isSwitch(option)) {
    throw new CommanderError(1, 'ingest.switch', `${envVar} expects true or false, not '${text}'`)
  }
}

function isSwitch(option: Option): boolean {
  return option.isBoolean() || option.negate
}

/**
 * Rewrites a command line for commander: `help keys rotate` to `keys rotate --help`, a group without a command to its
 * help, and an unknown command without `--help`, so that commander rejects it.
 */
function normalizeArgs(program: Command, args: readonly string[]): readonly string[] {
  const isHelp = args[0] === 'help'
  const words = isHelp ? args.slice(1) : args
  let command = program
  let depth = 0
  for (const word of words) {
    const child = command.commands.find((each) => each.name() === word)
    if (!child) break
    command = child
    depth++
  }
  const [next] = words.slice(depth)
  const isGroup = command.commands.length > 0
  if (next === undefined) return isHelp || isGroup ? [...words, '--help'] : words
  if (!isGroup) return isHelp ? [...words.slice(0, depth), '--help'] : words
  return next.startsWith('-') || next === 'help' ? words : words.slice(0, depth + 1)
}
