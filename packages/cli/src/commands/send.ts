import type { SubmittedEvents } from '@ingest/client'
import type { Issue } from '@ingest/core'
import { Command, Option } from 'commander'
import { addTargetOptions, connect, parseTarget, type Target } from '../connect.ts'
import { CommandFailure, exitCode, type Failure, toFailure } from '../exit-code.ts'
import { openInput } from '../files/open-input.ts'
import { withRejectedReport } from '../files/rejected-report.ts'
import type { Io } from '../io.ts'
import { printMessage, writeJson, writeStdout } from '../io.ts'
import { jsonOption, nonEmpty, quietOption, wholeNumber } from '../options.ts'
import { formatBytes, formatCount } from '../terminal/format.ts'
import { abortOnSignal } from '../terminal/on-signal.ts'
import { createProgressDisplay, toEventsProgress } from '../terminal/progress.ts'

interface SendOptions {
  makeIds?: true
  rejected?: string
  concurrency: number
  json?: true
  quiet?: true
}

/** Enough retries to outlast the restart of a server, which takes up to a minute. */
const retriesDefault = 10

/** `ingest send`. */
export function sendCommand(io: Io): Command {
  const command = new Command('send')
    .description('send the events of a file; a repeated run reports stored events as duplicates')
    .argument('<file>', 'NDJSON or a JSON array of events, or - for standard input', nonEmpty)
  return addTargetOptions(command, { retries: retriesDefault })
    .addOption(makeIdsOption())
    .addOption(rejectedOption())
    .addOption(
      new Option('--concurrency <n>', 'maximum number of batches in flight; 1 keeps the order of the file')
        .default(8)
        .argParser(wholeNumber(1, 64)),
    )
    .addOption(jsonOption())
    .addOption(quietOption())
    .addHelpText('after', sendHelp)
    .action(async (file: string, options: SendOptions) => send(io, file, options, parseTarget(command)))
}

/** `--make-ids`. */
export function makeIdsOption(): Option {
  return new Option('--make-ids', 'generate an eventId for each event without one, instead of rejecting it')
}

/** `--rejected <file>`. */
export function rejectedOption(): Option {
  return new Option(
    '--rejected <file>',
    'write rejected events to a file, one line each: { "line" or "index", "eventId", "issues", "event" }',
  ).argParser(nonEmpty)
}

const sendHelp = `
Events are sent byte for byte; --project supplies a missing projectId. Lines of \`ingest export\` and of a --rejected file
are accepted too: the event is extracted from them.
Events without an eventId are rejected. With --make-ids they are stored, and each further run stores them again.
Exit code 0: every event is stored. Exit code 5: some events were rejected, and all others are stored.

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
    printMessage(io, `generated ids for ${formatCount(sent.madeIds, 'event')}: another run stores them again`)
  }
  if (sent.rejected > 0) throw new CommandFailure({ ...rejectionFailure(sent, rejections, options), details: result() })
}

interface SendProgress {
  signal: AbortSignal
  /** Updated in place, so that a failure can report it. */
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
    // connects first: a failure keeps the --rejected file of an earlier run
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

const unsent = 'events are left unsent'

/** What is left to do, and what another run would do. */
function rerunAdvice({ makeIds }: SendOptions): string {
  return makeIds
    ? `${unsent}; another run stores events without an eventId again`
    : `${unsent}; run it again to resume: stored events are reported as duplicates`
}

async function toSendFailure(error: unknown, options: SendOptions): Promise<Failure> {
  const failure = await toFailure(error)
  const isEarly = failure.exitCode === exitCode.usage || failure.exitCode === exitCode.bug
  if (isEarly || failure.code === 'interrupted') return failure
  const [first = '', ...rest] = failure.exitCode === exitCode.temporary ? rerunAdvice(options) : unsent
  return { ...failure, message: `${failure.message} ${first.toUpperCase()}${rest.join('')}.` }
}

function rejectionFailure(
  { events, rejected }: SubmittedEvents,
  { withoutId }: SendProgress['rejections'],
  { rejected: file }: SendOptions,
): Failure {
  const where = file === undefined ? '--rejected <file> writes them to a file' : `the rejected events are in ${file}`
  const ids = withoutId > 0 ? `; ${withoutId} without an eventId, for which --make-ids would generate one` : ''
  const others = rejected < events ? ', all others are stored' : ''
  const message = `${rejected} of ${formatCount(events, 'event')} ${rejected === 1 ? 'was' : 'were'} rejected${others}: ${where}${ids}`
  return { exitCode: exitCode.invalid, code: 'events-rejected', message, retryable: false }
}
