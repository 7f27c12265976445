import type { SubmittedEvents } from '@ingest/client'
import type { Issue } from '@ingest/core'
import { Command, Option } from 'commander'
import { addTargetOptions, type Target, parseTarget, connect } from '../connect.ts'
import { CommandFailure, exitCode, type Failure, toFailure } from '../exit-code.ts'
import { openInput } from '../files/open-input.ts'
import { withRejectedReport } from '../files/rejected-report.ts'
import type { Io } from '../io.ts'
import { printMessage, writeJson, writeStdout } from '../io.ts'
import { jsonOption, nonEmpty, wholeNumber } from '../options.ts'
import { formatBytes, formatCount } from '../terminal/format.ts'
import { abortOnSignal } from '../terminal/on-signal.ts'
import { toEventsProgress, createProgressDisplay } from '../terminal/progress.ts'

interface SendOptions {
  makeIds?: true
  rejected?: string
  concurrency: number
  json?: true
  quiet?: true
}

/** A server that is started again is back within a minute; whoever sends much waits for that. */
const retriesDefault = 10

/** `ingest send`. */
export function sendCommand(io: Io): Command {
  const command = new Command('send')
    .description('send the events of a file; run again, what is stored already counts as a duplicate')
    .argument('<file>', 'events as lines of JSON (NDJSON) or as one array, or - for standard input', nonEmpty)
  return addTargetOptions(command, { retries: retriesDefault })
    .addOption(makeIdsOption())
    .addOption(rejectedOption())
    .addOption(
      new Option('--concurrency <n>', 'how many batches are sent at once; 1 keeps the order of the file')
        .default(8)
        .argParser(wholeNumber(1, 64)),
    )
    .addOption(jsonOption())
    .option('--quiet', 'print nothing but errors, and the object of --json')
    .addHelpText('after', sendHelp)
    .action(async (file: string, options: SendOptions) => send(io, file, options, parseTarget(command)))
}

/** `--make-ids`. */
export function makeIdsOption(): Option {
  return new Option('--make-ids', 'give an eventId to each event without one, which is rejected otherwise')
}

/** `--rejected <file>`. */
export function rejectedOption(): Option {
  return new Option(
    '--rejected <file>',
    'write what is rejected there, a line each: { "line" or "index", "eventId", "issues", "event" }',
  ).argParser(nonEmpty)
}

const sendHelp = `
Events are sent as they stand in the file, byte for byte; a missing projectId is that of --project. Lines of
\`ingest export\`, and of a --rejected file, stand for the event in them.
Events without an eventId are rejected, as running this again would store them again: --make-ids takes that on.
Exit code 0 says that each event is stored, now or before; 5 that some were rejected and all others are stored.

Examples:
  ingest send events.ndjson --data data/games --project demo
  INGEST_KEY=… ingest send events.ndjson --url http://127.0.0.1:8787 --project demo --rejected rejected.ndjson
  zcat old.ndjson.gz | ingest send - --data data/games --project demo
`

async function send(io: Io, file: string, options: SendOptions, target: Target): Promise<void> {
  const startedAt = performance.now()
  const sent: SubmittedEvents = { bytes: 0, events: 0, accepted: 0, duplicates: 0, rejected: 0, madeIds: 0 }
  const result = () => ({ ...sent, durationMs: Math.round(performance.now() - startedAt) })
  const rejections = { withoutId: 0 }
  try {
    await abortOnSignal(io, rerunAdvice(options), (signal) =>
      submit(io, { file, options, target }, { signal, sent, rejections }),
    )
  } catch (error) {
    throw new CommandFailure({ ...(await toSendFailure(error, options)), details: result() })
  }
  if (options.json && sent.rejected === 0) await writeJson(io, { ok: true, ...result() })
  if (!options.json && !options.quiet) await writeStdout(io, `${formatSummary(result())}\n`)
  if (sent.madeIds > 0 && !options.quiet) {
    printMessage(io, `ids were made for ${formatCount(sent.madeIds, 'event')}: running this again stores them again`)
  }
  if (sent.rejected > 0) throw new CommandFailure({ ...rejectionFailure(sent, rejections, options), details: result() })
}

interface SendProgress {
  signal: AbortSignal
  /** Kept up to date, so that it can be told whatever happens. */
  sent: SubmittedEvents
  rejections: { withoutId: number }
}

interface SendRequest {
  file: string
  options: SendOptions
  target: Target
}

async function submit(io: Io, { file, options, target }: SendRequest, sending: SendProgress): Promise<void> {
  const { signal, sent, rejections } = sending
  const { concurrency, makeIds = false, rejected, quiet } = options
  const { submitEvents } = await import('@ingest/client')
  const input = await openInput(io, file, rejected)
  try {
    // a target that cannot be reached leaves the file of an earlier run as it is
    await connect(io, target, (ingest) =>
      withRejectedReport(io, options, async (report) => {
        const progress = quiet ? undefined : await createProgressDisplay(io.stderr)
        try {
          await submitEvents(ingest, input.stream, {
            concurrency,
            makeIds,
            signal,
            onProgress(now) {
              Object.assign(sent, now)
              progress?.show(toEventsProgress('sending', now, input.size))
            },
            onRejected(events, form) {
              rejections.withoutId += events.filter(({ issues }) => issues.some(isMissingId)).length
              return report.note(events, form)
            },
          })
        } finally {
          progress?.end()
        }
      }),
    )
  } finally {
    input.stream.destroy()
  }
}

function isMissingId({ code, path }: Issue): boolean {
  return code === 'required' && path === '/eventId'
}

function formatSummary({ events, bytes, accepted, duplicates, rejected, durationMs }: SubmittedEvents & Timed): string {
  const seconds = durationMs / 1000
  const perSecond = Math.round(events / Math.max(seconds, 0.001))
  const outcome = `${accepted} accepted, ${formatCount(duplicates, 'duplicate')}, ${rejected} rejected`
  return `sent ${formatCount(events, 'event')}: ${outcome}; ${formatBytes(bytes)} in ${seconds.toFixed(2)} s, ${formatCount(perSecond, 'event')}/s`
}

interface Timed {
  durationMs: number
}

/** What running it again would do. */
function rerunAdvice({ makeIds }: SendOptions): string {
  return makeIds
    ? 'run again, it would store again what has no eventId of its own'
    : 'run it again, and it goes on: what is stored already counts as a duplicate'
}

async function toSendFailure(error: unknown, options: SendOptions): Promise<Failure> {
  const failure = await toFailure(error)
  if (failure.exitCode !== exitCode.temporary) return failure
  const [first = '', ...rest] = rerunAdvice(options)
  return { ...failure, message: `${failure.message} ${first.toUpperCase()}${rest.join('')}.` }
}

function rejectionFailure(
  { events, rejected }: SubmittedEvents,
  { withoutId }: SendProgress['rejections'],
  { rejected: file }: SendOptions,
): Failure {
  const where = file === undefined ? '--rejected <file> keeps them with their issues' : `they are in ${file}`
  const ids =
    withoutId > 0 ? `; without an eventId: ${withoutId}, which --make-ids would store, and again with each run` : ''
  const others = rejected < events ? ', and all others are stored' : ''
  const message = `${rejected} of ${formatCount(events, 'event')} ${rejected === 1 ? 'was' : 'were'} rejected${others}: ${where}${ids}`
  return { exitCode: exitCode.invalid, code: 'events-rejected', message, retryable: false }
}
