import { once } from 'node:events'
import { createInterface } from 'node:readline/promises'
import type { EmbeddedIngest, ErasedTotals, EraseSelection, ErasureOptions } from '@ingest/core'
import { describeSelection, mapProjects } from '@ingest/core/internal'
import { Command, InvalidArgumentError, Option } from 'commander'
import { requireKnown, withIngest } from '../connect.ts'
import { refusal } from '../exit-code.ts'
import { type Io, type PrintOptions, printMessage, printResult } from '../io.ts'
import { durationMs, jsonOption, nonEmpty, parsePositiveDuration, parseTimeText, projectOption } from '../options.ts'
import { parseStore, storeOption } from '../store.ts'
import { formatBytes, formatCount, formatNumber, formatTable } from '../terminal/format.ts'
import { abortOnSignal } from '../terminal/on-signal.ts'

interface EraseOptions extends PrintOptions {
  project?: string
  player?: string
  where?: EraseSelection
  olderThan?: Age
  yes?: true
  dryRun: boolean
}

/** A duration before now, or an absolute time; both as milliseconds since 1970. */
interface Age {
  before: number
  isByClock: boolean
}

/** Erases the selected events of one project. */
type Erase = (ingest: EmbeddedIngest, projectId: string, options: ErasureOptions) => Promise<ErasedTotals>

type ProjectTotals = ErasedTotals & { projectId: string }

export function eraseCommand(io: Io): Command {
  return new Command('erase')
    .description('erase the events of a player, those with a value, or old ones; ids stay known')
    .addOption(storeOption().makeOptionMandatory())
    .addOption(projectOption().makeOptionMandatory(false))
    .addOption(
      new Option('--player <id>', 'playerId of the events').argParser(nonEmpty).conflicts(['where', 'olderThan']),
    )
    .addOption(
      new Option('--where <pointer=value>', 'JSON Pointer and its value, such as /user/id=7')
        .argParser(parseSelection)
        .conflicts('olderThan'),
    )
    .addOption(
      new Option(
        '--older-than <age>',
        'age since receipt, such as 90d, or a time, such as 2026-11-20T17:51:00Z; of all projects without --project',
      ).argParser(parseAge),
    )
    .addOption(new Option('--dry-run', 'only count').default(false))
    .option('--yes', 'do not ask')
    .addOption(jsonOption())
    .addHelpText('after', eraseHelp)
    .action(async (options: EraseOptions, command: Command) => {
      const { dryRun } = options
      const erase = chooseErasure(io, command, options)
      let isRefused = false
      const isTerminal = io.stdin.isTTY === true && io.stderr.isTTY === true
      if (!dryRun && !options.yes && !isTerminal) command.error('erasing cannot be undone: confirm it with --yes')
      const projects = await abortOnSignal(io, 'some events are erased; run it again to continue', (signal) =>
        withIngest(io, { store: parseStore(command) }, async (ingest) => {
          isRefused = await checkClock(io, ingest, options)
          return eraseProjects(io, ingest, { options, erase, signal })
        }),
      )
      const selection = selectionOf(options)
      const compared = selection && describeSelection(selection)
      const lines = compared === undefined ? [] : [`compared: ${compared}`]
      const result = { dryRun, ...(compared !== undefined && { compared }), projects }
      const heading = dryRun ? (isRefused ? 'OLDER' : 'WOULD ERASE') : 'ERASED'
      await printResult(io, options, result, [...lines, ...formatTotals(projects, heading)])
    })
}

const eraseHelp = `
Servers may have the store open. Events that are stored after the command began are not erased. Erased events cannot be
restored; their ids stay known, so that a retry stores nothing. Free space of the files may hold their bytes until it is
used again: a backup has none of them. Maps, earlier backups, exports and spools are not changed.
\`ingest serve --retain 90d\` does the same as --older-than once an hour. Both refuse an age if the clock may be ahead: name
a time instead.
The value after = is JSON if it parses, otherwise a string. A number and the string of its digits are the same: 7 also
finds "7", and "7" also 7. true, false and null are only found as such: for the string, write '/name="true"'.
Exit code 3: declined at the prompt, an unknown project, or a clock that may be ahead.

Examples:
  ingest erase --player 7 --project demo --store data/games --dry-run
  ingest erase --where /user/email=a@example.com --project demo --store data/games --yes
  ingest erase --older-than 90d --store data/games --yes
`

/**
 * Chooses the erasure that the options select.
 *
 * @throws {CommanderError} without a selection, or if it needs a project
 */
function chooseErasure(io: Io, command: Command, options: EraseOptions): Erase {
  const { project, olderThan } = options
  if (olderThan !== undefined) {
    const { before } = olderThan
    return (ingest, projectId, options) => {
      const onUnread = (names: readonly string[]) =>
        printMessage(io, `consumers of ${projectId} have not read all of these events: ${names.join(', ')}`)
      return ingest.retainEvents(projectId, before, { ...options, onUnread })
    }
  }
  const selection = selectionOf(options)
  if (!selection) command.error('name the events: --player <id>, --where <pointer=value> or --older-than <age>')
  if (project === undefined) command.error('name the project: --project <id>')
  return (ingest, projectId, options) => ingest.eraseEvents(projectId, selection, options)
}

/**
 * Checks that the clock is not ahead, which would make all events seem old. Resolves to whether the erasure would be
 * refused if it were not a dry run.
 *
 * @throws {CommandFailure} `clock-doubted` for a duration before now
 */
async function checkClock(io: Io, ingest: EmbeddedIngest, { olderThan, dryRun }: EraseOptions): Promise<boolean> {
  const doubt = olderThan && (await ingest.findClockDoubt(olderThan.before))
  if (!doubt) return false
  const isRefused = doubt.mayBeAhead && olderThan.isByClock
  if (isRefused && !dryRun) throw refusal('clock-doubted', `Nothing is erased by age. ${doubt.message}`)
  printMessage(io, isRefused ? `Without --dry-run, this age is refused. ${doubt.message}` : doubt.message)
  return isRefused
}

/** The value that events are compared with; undefined for an erasure by age. */
function selectionOf({ player, where }: EraseOptions): EraseSelection | undefined {
  return player === undefined ? where : { path: '/playerId', value: player }
}

interface Erasure {
  options: EraseOptions
  erase: Erase
  signal: AbortSignal
}

async function eraseProjects(io: Io, ingest: EmbeddedIngest, { options, erase, signal }: Erasure) {
  const { project, dryRun, yes } = options
  if (project !== undefined) requireKnown(await ingest.hasProject(project), project)
  const projectIds = project === undefined ? await ingest.listProjects() : [project]
  const eraseAll = (dryRun: boolean): Promise<ProjectTotals[]> =>
    mapProjects(projectIds, async (projectId) => ({
      projectId,
      ...(await erase(ingest, projectId, { dryRun, signal })),
    }))
  if (!dryRun && !yes) {
    const events = (await eraseAll(true)).reduce((sum, { events }) => sum + events, 0)
    const count = formatCount(events, 'event')
    const selection = selectionOf(options)
    const which = selection ? `, where ${describeSelection(selection)}` : ''
    await confirm(io, `Erase ${count} of ${project ?? 'all projects'}${which}? This cannot be undone. [y/N] `, signal)
  }
  return eraseAll(dryRun)
}

function formatTotals(projects: readonly ProjectTotals[], heading: string): string[] {
  const cells = projects.map(({ projectId, events, bytes }) => [projectId, formatNumber(events), formatBytes(bytes)])
  return formatTable([['PROJECT', heading, 'BYTES'], ...cells], [1, 2])
}

/**
 * Parses an age. A duration of 0 or a future time is refused: it would erase everything.
 *
 * @throws {InvalidArgumentError}
 */
function parseAge(text: string): Age {
  if (!Number.isNaN(durationMs(text))) return { before: Date.now() - parsePositiveDuration(text), isByClock: true }
  const before = parseTimeText(text)
  if (before !== undefined && before <= Date.now()) return { before, isByClock: false }
  throw new InvalidArgumentError('Expected a duration such as 90d, or a time before now such as 2026-11-20T17:51:00Z.')
}

function parseSelection(text: string): EraseSelection {
  const at = text.indexOf('=')
  if (at === -1 || !text.startsWith('/')) {
    throw new InvalidArgumentError('Expected a JSON Pointer and a value, such as /user/id=7.')
  }
  return { path: text.slice(0, at), value: parseValue(text.slice(at + 1)) }
}

function parseValue(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text)
    // as text, because a number keeps only 16 digits
    return typeof value === 'number' ? text.trim() : value
  } catch {
    return text
  }
}

async function confirm({ stdin, stderr }: Io, question: string, signal: AbortSignal): Promise<void> {
  const terminal = createInterface({ input: stdin, output: stderr })
  try {
    // if the input ends, the question is never answered
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
  throw refusal('not-confirmed', 'nothing was erased: it was not confirmed')
}
