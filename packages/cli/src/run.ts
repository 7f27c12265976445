import { readFileSync } from 'node:fs'
import { Command, CommanderError } from 'commander'
import { checkCommand } from './check-command.ts'
import { completionCommand, wordsToComplete, writeSuggestions } from './completion-command.ts'
import { exitCode, exitCodeHelp } from './exit-code.ts'
import { exportCommand } from './export-command.ts'
import { failureOf } from './failure-of.ts'
import { findCommand } from './find-command.ts'
import { keysCommand } from './keys-command.ts'
import { mapsCommand } from './maps-command.ts'
import { publishMapCommand } from './publish-map-command.ts'
import { sendCommand } from './send-command.ts'
import { serveCommand } from './serve-command.ts'
import { statsCommand } from './stats-command.ts'
import { tailCommand } from './tail-command.ts'
import { writeOut } from './write-out.ts'

/** Runs one command line and resolves to its exit code. What goes wrong is one line on stderr. */
export async function run(argv: readonly string[]): Promise<number> {
  const program = createProgram()
  try {
    const words = wordsToComplete(argv)
    if (words) await writeSuggestions(program, words)
    else await program.parseAsync(argv)
    return exitCode.done
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === 0) return exitCode.done
    const { exitCode: code, details, ...failure } = await failureOf(error)
    // what commander finds it has said already, and an end that was asked for need not be explained
    if (!(error instanceof CommanderError) && failure.message !== '') complain(failure.message)
    if (wantsObject(argv)) await writeOut(`${JSON.stringify({ ok: false, ...details, error: failure })}\n`)
    return code
  }
}

/** Whether a program waits for one object whatever happens, also when the command line is not understood. */
function wantsObject([, , command, ...args]: readonly string[]): boolean {
  return /^(publish-map|send|check|export)$/.test(command ?? '') && args.includes('--json')
}

function createProgram(): Command {
  const program = new Command('ingest')
    .description('Stores events exactly once and for ever, and publishes the maps of game builds.')
    .version(version())
    .addHelpText('after', exitCodeHelp)
    .exitOverride()
    .configureOutput({ outputError: (text) => complain(withRemedy(text.replace(/^error: /, ''))) })
  const commands = [
    serveCommand(),
    keysCommand(),
    sendCommand(),
    checkCommand(),
    exportCommand(),
    tailCommand(),
    findCommand(),
    statsCommand(),
    publishMapCommand(),
    mapsCommand(),
    completionCommand(),
  ]
  for (const command of commands) program.addCommand(inherit(command, program))
  wantCommand(program, 'ingest')
  return program
}

/** A command that was made by itself does not take its parent's settings by itself. */
function inherit(command: Command, parent: Command): Command {
  command.copyInheritedSettings(parent)
  for (const child of command.commands) inherit(child, command)
  if (command.commands.length > 0) wantCommand(command, `ingest ${command.name()}`)
  return command
}

/** Without this, commander prints its whole help for no command, and counts arguments for one that it does not know. */
function wantCommand(group: Command, name: string): void {
  group
    .helpCommand(true)
    .allowExcessArguments()
    .allowUnknownOption()
    .action(() => {
      const [first] = group.args
      if (first === undefined) group.error(`name a command: ${name} --help lists them`)
      group.error(
        `unknown ${first.startsWith('-') ? 'option' : 'command'} '${first}': ${name} --help lists what there is`,
      )
    })
}

/** The likeliest first error of all says both ways out. */
function withRemedy(text: string): string {
  const [, option = ''] = /^required option '(--\w+)/.exec(text) ?? []
  const variable = { '--data': 'INGEST_DATA', '--project': 'INGEST_PROJECT_ID' }[option]
  return variable === undefined ? text : `${text.trim()}: name it, or set ${variable}`
}

function complain(text: string): void {
  process.stderr.write(`ingest: ${text.trim().replaceAll(/\s*\n\s*/g, ' ')}\n`)
}

function version(): string {
  return JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version
}
