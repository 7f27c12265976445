import { once } from 'node:events'
import { createInterface } from 'node:readline/promises'
import type { EraseSelection } from '@ingest/core'
import { Command, InvalidArgumentError, Option } from 'commander'
import { requireProject, withIngest } from '../connect.ts'
import { CommandFailure, exitCode } from '../exit-code.ts'
import type { Io } from '../io.ts'
import { writeJson, writeStdout } from '../io.ts'
import { jsonOption, nonEmpty, projectOption } from '../options.ts'
import { parseStore, storeOptions } from '../store.ts'
import { formatCount } from '../terminal/format.ts'
import { abortOnSignal } from '../terminal/on-signal.ts'
import { dryRunOption, eraseAdvice, formatTotals } from './retain.ts'

interface EraseOptions {
  project: string
  player?: string
  where?: EraseSelection
  yes?: true
  dryRun?: boolean
  json?: true
}

/** `ingest erase`. */
export function eraseCommand(io: Io): Command {
  const command: Command = new Command('erase').description(
    'erase the events of a player, or those with a value; ids stay known',
  )
  for (const option of storeOptions()) command.addOption(option)
  return command
    .addOption(projectOption())
    .addOption(new Option('--player <id>', 'playerId of the events').argParser(nonEmpty).conflicts('where'))
    .addOption(
      new Option('--where <pointer=value>', 'JSON Pointer and its value, such as /user/id=7').argParser(parseSelection),
    )
    .addOption(dryRunOption())
    .option('--yes', 'do not ask')
    .addOption(jsonOption())
    .addHelpText('after', eraseHelp)
    .action(async (options: EraseOptions) => {
      const { project, player, dryRun = false, json } = options
      const selection = player === undefined ? options.where : { path: '/playerId', value: player }
      if (!selection) command.error('name the events: --player <id> or --where <pointer=value>')
      const isTerminal = io.stdin.isTTY === true && io.stderr.isTTY === true
      if (!dryRun && !options.yes && !isTerminal) command.error('erasing cannot be undone: confirm it with --yes')
      const totals = await abortOnSignal(io, eraseAdvice, (signal) =>
        withIngest(io, { store: parseStore(command), project }, async (ingest) => {
          await requireProject(ingest, project)
          if (!dryRun && !options.yes) {
            const { events } = await ingest.eraseEvents(project, selection, { dryRun: true, signal })
            await confirm(
              io,
              `Erase ${formatCount(events, 'event')} of ${project}? This cannot be undone. [y/N] `,
              signal,
            )
          }
          const totals = await ingest.eraseEvents(project, selection, { dryRun, signal })
          if (!dryRun) await ingest.purgeErased()
          return totals
        }),
      )
      if (json) await writeJson(io, { ok: true, dryRun, projectId: project, ...totals })
      else await writeStdout(io, `${formatTotals([{ projectId: project, ...totals }], dryRun).join('\n')}\n`)
    })
}

const eraseHelp = `
Servers may have the store open. Events that are stored after the command began are not erased. Erased events cannot be
restored; their ids stay known, so that a retry stores nothing. Maps, backups, exports and spools are not changed.
The value after = is JSON if it parses, otherwise a string.
Exit code 3: not confirmed, or an unknown project.

Examples:
  ingest erase --player 7 --project demo --data data/games --dry-run
  ingest erase --where /user/email=a@example.com --project demo --data data/games --yes
`

function parseSelection(text: string): EraseSelection {
  const at = text.indexOf('=')
  if (at === -1 || !text.startsWith('/')) {
    throw new InvalidArgumentError('Expected a JSON Pointer and a value, such as /user/id=7.')
  }
  return { path: text.slice(0, at), value: parseValue(text.slice(at + 1)) }
}

function parseValue(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

async function confirm({ stdin, stderr }: Io, question: string, signal: AbortSignal): Promise<void> {
  const terminal = createInterface({ input: stdin, output: stderr })
  try {
    // at the end of the input the question is never answered
    const ended = once(terminal, 'close').then(() => '')
    const asked = terminal.question(question, { signal }).catch((error) => {
      signal.throwIfAborted()
      // Ctrl-D
      if (error.code === 'ABORT_ERR') return ''
      throw error
    })
    const text = await Promise.race([asked, ended])
    if (/^y(es)?$/i.test(text.trim())) return
  } finally {
    terminal.close()
  }
  const message = 'nothing was erased: it was not confirmed'
  throw new CommandFailure({ exitCode: exitCode.refused, code: 'not-confirmed', message, retryable: false })
}
