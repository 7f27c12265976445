import type { PreparedEvent, PreparedEvents, RejectedInput, ValueForm } from '@ingest/client'
import type { JsonObject } from '@ingest/core/internal'
import { Command } from 'commander'
import { CommandFailure, exitCode, type Failure, failureOf } from '../exit-code.ts'
import { openInput } from '../files/open-input.ts'
import { createFirstPlaces, placeOf, type RejectedReport, withRejected } from '../files/rejected-report.ts'
import type { Io } from '../io.ts'
import { writeJson, writeOut } from '../io.ts'
import { jsonOption, notEmpty, projectOption } from '../options.ts'
import { formatBytes, formatCount } from '../terminal/format.ts'
import { untilSignal } from '../terminal/on-signal.ts'
import { eventsProgress, showProgress } from '../terminal/progress.ts'
import { makeIdsOption, rejectedOption } from './send.ts'

interface CheckOptions {
  project?: string
  makeIds?: true
  rejected?: string
  json?: true
  quiet?: true
}

/** What would become of the events. */
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
    .description('say what would become of the events of a file, without a server and without a store')
    .argument('<file>', 'events as lines of JSON (NDJSON) or as one array, or - for standard input', notEmpty)
    .addOption(projectOption().makeOptionMandatory(false))
    .addOption(makeIdsOption())
    .addOption(rejectedOption())
    .addOption(jsonOption())
    .option('--quiet', 'print nothing but errors, and the object of --json')
    .addHelpText('after', checkHelp)
    .action(async (file: string, options: CheckOptions) => check(io, file, options))
}

const checkHelp = `
Without --project or INGEST_PROJECT_ID, the project is that of the first event, and each event has to name it. With it,
a missing projectId is no fault, as \`ingest send\` adds it. What is stored already, and rules that a server has of its
own, are not known here. The ids of the file are kept in memory.
Exit code 0 says that each event would be stored; 5 that some would not: rejected, or with an id of an earlier one.

Examples:
  ingest check events.ndjson
  ingest check events.ndjson --project demo --rejected rejected.ndjson
`

async function check(io: Io, file: string, options: CheckOptions): Promise<void> {
  const { project, json, quiet } = options
  const tally: Tally = { projectId: project ?? null, bytes: 0, events: 0, accepted: 0, duplicates: 0, rejected: 0 }
  try {
    await untilSignal(io, 'not all of it was checked', (signal) => checkFile(io, { file, options, tally, signal }))
  } catch (error) {
    throw new CommandFailure({ ...(await failureOf(error)), details: tally })
  }
  const isGood = tally.accepted === tally.events
  if (json && isGood) await writeJson(io, { ok: true, ...tally })
  if (!json && !quiet) await writeOut(io, `${lineOf(tally)}\n`)
  if (!isGood) throw new CommandFailure({ ...faultOf(tally), details: tally })
}

interface Checking {
  file: string
  options: CheckOptions
  tally: Tally
  signal: AbortSignal
}

async function checkFile(io: Io, { file, options, tally, signal }: Checking): Promise<void> {
  const { prepareEvents } = await import('@ingest/client')
  const input = await openInput(io, file, options.rejected)
  const leave = () => input.stream.destroy()
  signal.addEventListener('abort', leave)
  try {
    await withRejected(io, options, async (report) => {
      const judge = await createJudge(tally, report)
      const progress = options.quiet ? undefined : await showProgress(io.stderr)
      try {
        const { project: projectId, makeIds } = options
        for await (const piece of prepareEvents(input.stream, { projectId, makeIds })) {
          await judge(piece)
          progress?.show(eventsProgress('checking', tally, input.size))
        }
      } finally {
        progress?.end()
      }
    })
  } finally {
    signal.throwIfAborted()
    leave()
  }
}

/** Decides about each event as a server does that has none of them; what it finds is counted and reported. */
async function createJudge(tally: Tally, report: RejectedReport): Promise<(piece: PreparedEvents) => Promise<void>> {
  const [{ checkEvent, IngestError }, { isProjectId, parseJson }, { rejectEvent }] = await Promise.all([
    import('@ingest/core'),
    import('@ingest/core/internal'),
    import('@ingest/client'),
  ])
  const places = createFirstPlaces()

  function projectOf({ projectId }: JsonObject): string {
    if (isProjectId(projectId)) return projectId
    throw new IngestError('invalid-argument', 'The first event names no project: name it by --project.')
  }

  /** The event, if it would be rejected. */
  function judge(prepared: PreparedEvent, form: ValueForm | undefined): RejectedInput | undefined {
    tally.projectId ??= projectOf(parseJson(prepared.bytes) as JsonObject)
    const { eventId, isIdentified, issues } = checkEvent(tally.projectId, prepared.bytes)
    const first = eventId !== null && isIdentified ? places.find(eventId) : undefined
    if (eventId !== null && first !== undefined) {
      tally.duplicates++
      report.mention(prepared.at, form, eventId, `The eventId is that of ${placeOf(first, form)}.`)
    } else if (eventId === null || issues.length > 0) {
      return rejectEvent(prepared, { eventId, issues })
    } else {
      tally.accepted++
      places.add(eventId, prepared.at)
    }
    return undefined
  }

  return async ({ form, bytes, events, rejected }) => {
    const all = [...rejected, ...events.flatMap((event) => judge(event, form) ?? [])]
    tally.bytes += bytes
    tally.events += rejected.length + events.length
    tally.rejected += all.length
    await report.note(
      all.sort((a, b) => a.at - b.at),
      form,
    )
  }
}

function lineOf({ projectId, bytes, events, accepted, duplicates, rejected }: Tally): string {
  const of = projectId === null ? '' : ` of ${projectId}`
  const outcome = `${accepted} would be accepted, ${formatCount(duplicates, 'duplicate')}, ${rejected} rejected`
  return `checked ${formatCount(events, 'event')}${of}: ${outcome}; ${formatBytes(bytes)}`
}

function faultOf({ events, accepted, rejected }: Tally): Failure {
  const code = rejected > 0 ? 'events-rejected' : 'events-repeated'
  const message = `${events - accepted} of ${formatCount(events, 'event')} would not be stored`
  return { exitCode: exitCode.invalid, code, message, retryable: false }
}
