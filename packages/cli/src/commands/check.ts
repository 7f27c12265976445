import type { PreparedEvent, PreparedEvents, RejectedInput, ValueForm } from '@ingest/client'
import type { JsonObject } from '@ingest/core/internal'
import { Command } from 'commander'
import { CommandFailure, exitCode, type Failure, toFailure } from '../exit-code.ts'
import { openInput } from '../files/open-input.ts'
import { createFirstSeen, describePosition, type RejectedReport, withRejectedReport } from '../files/rejected-report.ts'
import type { Io } from '../io.ts'
import { writeJson, writeStdout } from '../io.ts'
import { jsonOption, nonEmpty, projectOption, quietOption } from '../options.ts'
import { formatBytes, formatCount } from '../terminal/format.ts'
import { abortOnSignal } from '../terminal/on-signal.ts'
import { createProgressDisplay, toEventsProgress } from '../terminal/progress.ts'
import { makeIdsOption, rejectedOption } from './send.ts'

interface CheckOptions {
  project?: string
  makeIds?: true
  rejected?: string
  json?: true
  quiet?: true
}

interface Tally {
  projectId: string | null
  bytes: number
  events: number
  accepted: number
  duplicates: number
  rejected: number
}

/** `ingest check`. */
export function checkCommand(io: Io): Command {
  return new Command('check')
    .description('validate the events of a file without a server or a store')
    .argument('<file>', 'NDJSON or a JSON array of events, or - for standard input', nonEmpty)
    .addOption(projectOption().makeOptionMandatory(false))
    .addOption(makeIdsOption())
    .addOption(rejectedOption())
    .addOption(jsonOption())
    .addOption(quietOption())
    .addHelpText('after', checkHelp)
    .action(async (file: string, options: CheckOptions) => check(io, file, options))
}

const checkHelp = `
Default of --project: the project of the first event, which every event then has to name. With --project or
INGEST_PROJECT_ID, a missing projectId is valid, because \`ingest send\` adds it. Events that are already stored, and
schemas of a server, are not checked. All ids of the file are kept in memory.
Exit code 0: every event would be stored. Exit code 5: some are invalid, or repeat the id of an earlier event.

Examples:
  ingest check events.ndjson
  ingest check events.ndjson --project demo --rejected rejected.ndjson
`

async function check(io: Io, file: string, options: CheckOptions): Promise<void> {
  const { project, json, quiet } = options
  const tally: Tally = { projectId: project ?? null, bytes: 0, events: 0, accepted: 0, duplicates: 0, rejected: 0 }
  try {
    await abortOnSignal(io, 'the check is incomplete', (signal) => checkFile(io, { file, options, tally, signal }))
  } catch (error) {
    throw new CommandFailure({ ...(await toFailure(error)), details: tally })
  }
  const isValid = tally.accepted === tally.events
  if (json && isValid) await writeJson(io, { ok: true, ...tally })
  if (!json && !quiet) await writeStdout(io, `${formatTally(tally)}\n`)
  if (!isValid) throw new CommandFailure({ ...tallyFailure(tally), details: tally })
}

interface CheckRun {
  file: string
  options: CheckOptions
  tally: Tally
  signal: AbortSignal
}

async function checkFile(io: Io, { file, options, tally, signal }: CheckRun): Promise<void> {
  const { prepareEvents } = await import('@ingest/client')
  const input = await openInput(io, file, options.rejected)
  const closeInput = () => input.stream.destroy()
  signal.addEventListener('abort', closeInput)
  try {
    await withRejectedReport(io, options, async (report) => {
      const checkEvents = await createChecker(tally, report)
      const progress = options.quiet ? undefined : await createProgressDisplay(io.stderr)
      try {
        const { project: projectId, makeIds } = options
        for await (const prepared of prepareEvents(input.stream, { projectId, makeIds })) {
          await checkEvents(prepared)
          progress?.show(toEventsProgress('checking', tally, input.size))
        }
      } finally {
        progress?.end()
      }
    })
  } finally {
    signal.throwIfAborted()
    closeInput()
  }
}

/** Checks events as a server with an empty store does, counts the results and reports what is not accepted. */
async function createChecker(
  tally: Tally,
  report: RejectedReport,
): Promise<(prepared: PreparedEvents) => Promise<void>> {
  const [{ checkEvent, IngestError }, { isProjectId, parseJson }, { rejectEvent }] = await Promise.all([
    import('@ingest/core'),
    import('@ingest/core/internal'),
    import('@ingest/client'),
  ])
  const firstSeen = createFirstSeen()

  function requireProjectId({ projectId }: JsonObject): string {
    if (isProjectId(projectId)) return projectId
    throw new IngestError(
      'invalid-argument',
      'The first event has no valid projectId: name the project with --project.',
    )
  }

  /** Counts an accepted or repeated event; returns an invalid one. */
  function checkOne(prepared: PreparedEvent, form: ValueForm | undefined): RejectedInput | undefined {
    tally.projectId ??= requireProjectId(parseJson(prepared.bytes) as JsonObject)
    const { eventId, isIdentified, issues } = checkEvent(tally.projectId, prepared.bytes)
    const first = eventId !== null && isIdentified ? firstSeen.find(eventId) : undefined
    if (eventId !== null && first !== undefined) {
      tally.duplicates++
      report.mention(prepared.at, form, eventId, `The eventId repeats ${describePosition(first, form)}.`)
    } else if (eventId === null || issues.length > 0) {
      return rejectEvent(prepared, { eventId, issues })
    } else {
      tally.accepted++
      firstSeen.add(eventId, prepared.at)
    }
    return undefined
  }

  return async ({ form, bytes, events, rejected }) => {
    const all = [...rejected, ...events.flatMap((event) => checkOne(event, form) ?? [])]
    tally.bytes += bytes
    tally.events += rejected.length + events.length
    tally.rejected += all.length
    await report.note(
      all.sort((a, b) => a.at - b.at),
      form,
    )
  }
}

function formatTally({ projectId, bytes, events, accepted, duplicates, rejected }: Tally): string {
  const project = projectId === null ? '' : ` of ${projectId}`
  const outcome = `${accepted} would be accepted, ${formatCount(duplicates, 'duplicate')}, ${rejected} rejected`
  return `checked ${formatCount(events, 'event')}${project}: ${outcome}; ${formatBytes(bytes)}`
}

function tallyFailure({ events, accepted, rejected }: Tally): Failure {
  const code = rejected > 0 ? 'events-rejected' : 'events-repeated'
  const message = `${events - accepted} of ${formatCount(events, 'event')} would not be stored`
  return { exitCode: exitCode.invalid, code, message, retryable: false }
}
