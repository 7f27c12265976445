import type { SubmittedEvents } from '@ingest/client'
import {
  createIngest,
  decodeEvents,
  type EventSchemas,
  type Ingest,
  IngestError,
  type Issue,
  openMemoryStore,
  type Store,
} from '@ingest/core'
import { countEvents } from '@ingest/core/internal'
import { Command, Option } from 'commander'
import { addTargetOptions, connect, parseTarget, type Target } from '../connect.ts'
import { CommandFailure, exitCode, type Failure, toFailure } from '../exit-code.ts'
import { openInput } from '../files/open-input.ts'
import { readSchemas, schemasOption } from '../files/read-schemas.ts'
import { withRejectedReport } from '../files/rejected-report.ts'
import { type Io, type PrintOptions, printMessage, printResult } from '../io.ts'
import { jsonOption, nonEmpty, quietOption, wholeNumber } from '../options.ts'
import { formatBytes, formatCount, formatSeconds, startTimer } from '../terminal/format.ts'
import { abortOnSignal } from '../terminal/on-signal.ts'
import { type Progress, withProgress } from '../terminal/progress.ts'

interface SendOptions extends PrintOptions {
  dryRun?: true
  schemas?: string
  makeIds?: true
  rejected?: string
  concurrency: number
}

/** Enough retries to outlast the restart of a server, which may take a minute. */
const retriesDefault = 10

export function sendCommand(io: Io): Command {
  const command = new Command('send')
    .description('send the events of a file; a repeated run reports stored events as duplicates')
    .argument('<file>', 'NDJSON or a JSON array of events, or - for standard input', nonEmpty)
  return addTargetOptions(command, { retries: retriesDefault })
    .option('--make-ids', 'generate an eventId for each event without one, instead of rejecting it')
    .option(
      '--rejected <file>',
      'write rejected events to a file, one line each: { "line" or "index", "eventId", "issues", "event" }',
      nonEmpty,
    )
    .addOption(
      new Option('--concurrency <n>', 'maximum number of batches in flight; 1 keeps the order of the file')
        .default(8)
        .argParser(wholeNumber(1, 64)),
    )
    .option('--dry-run', 'validate the events, and send nothing: neither a server nor a store is needed')
    .addOption(schemasOption())
    .addOption(jsonOption())
    .addOption(quietOption())
    .addHelpText('after', sendHelp)
    .action(async (file: string, options: SendOptions) => {
      const { dryRun, schemas } = options
      if (schemas !== undefined && !dryRun) command.error('--schemas needs --dry-run: a server has schemas of its own')
      const { project } = command.opts<Target>()
      const target = dryRun ? undefined : parseTarget(command)
      const withTarget: WithTarget = target ? (use) => connect(io, target, use) : await dryRunOn(project, schemas)
      await send(io, file, options, withTarget)
    })
}

/** Calls `use` with the project that receives the events. */
type WithTarget = (use: (ingest: Ingest) => Promise<void>) => Promise<void>

/** Opens a project for a dry run: it is empty and remembers only ids. */
async function dryRunOn(project: string, schemasFile: string | undefined): Promise<WithTarget> {
  const schemas: EventSchemas = schemasFile === undefined ? {} : await readSchemas(schemasFile)
  const ingest = createIngest({ store: idStore(), schemas })
  return (use) => use(ingest.project(project)).finally(ingest.close)
}

/** Maximum size of a Set in V8. */
const idsMax = 2 ** 24 - 1

function idStore(): Store {
  const ids = new Set<string>()
  return {
    ...openMemoryStore(),
    async append(_projectId, { body, events }) {
      if (ids.size + countEvents(events) > idsMax) {
        throw new IngestError('overloaded', `A dry run remembers at most ${idsMax} ids: split the file.`)
      }
      const stored = decodeEvents(body, events).map(({ eventId }) => ids.size < ids.add(eventId).size)
      return { stored, conflicts: 0, frozen: [] }
    },
  }
}

const sendHelp = `
Events are sent byte for byte; --project supplies a missing projectId. Lines of \`ingest export\` and of a --rejected file
are accepted too: the event is extracted from them.
Events without an eventId are rejected. With --make-ids they are stored, and each further run stores them again.
Exit code 0: every event is stored. Exit code 5: some events were rejected, and all others are stored.
With --dry-run, events count as duplicates if their id occurs earlier in the file; all ids are kept in memory.

Examples:
  ingest send events.ndjson --store data/games --project demo
  INGEST_KEY=… ingest send events.ndjson --url http://127.0.0.1:8787 --project demo --rejected rejected.ndjson
  ingest send events.ndjson --dry-run --project demo --schemas schemas.json
  zcat old.ndjson.gz | ingest send - --store data/games --project demo
`

async function send(io: Io, file: string, options: SendOptions, withTarget: WithTarget): Promise<void> {
  const elapsed = startTimer()
  const sent: SubmittedEvents = { bytes: 0, events: 0, accepted: 0, duplicates: 0, rejected: 0, madeIds: 0 }
  const rejections = { withoutId: 0 }
  try {
    await abortOnSignal(io, rerunAdvice(options), (signal) =>
      submit(io, { file, options, withTarget }, { signal, sent, rejections }),
    )
  } catch (error) {
    throw new CommandFailure({ ...toSendFailure(error, options), details: { ...sent, durationMs: elapsed() } })
  }
  const result = { ...sent, durationMs: elapsed() }
  const isRejected = sent.rejected > 0
  // a failure prints its own object
  if (!isRejected || !options.json) await printResult(io, options, result, formatSummary(result, options))
  if (sent.madeIds > 0 && !options.quiet) {
    printMessage(io, `generated ids for ${formatCount(sent.madeIds, 'event')}: another run stores them again`)
  }
  if (isRejected) throw new CommandFailure({ ...rejectionFailure(sent, rejections, options), details: result })
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
  withTarget: WithTarget
}

async function submit(io: Io, { file, options, withTarget }: SendRequest, sending: SendProgress): Promise<void> {
  const { signal, sent, rejections } = sending
  const { concurrency, makeIds = false, rejected, quiet } = options
  const { submitEvents } = await import('@ingest/client')
  const input = await openInput(io, file, rejected)
  try {
    // connect first, so that a failure keeps the --rejected file of an earlier run
    await withTarget((ingest) =>
      withRejectedReport(io, options, (report) =>
        withProgress(io, quiet, async (show) => {
          await submitEvents(ingest, input.stream, {
            concurrency,
            makeIds,
            signal,
            onProgress(now) {
              Object.assign(sent, now)
              show(toProgress(now, input.size))
            },
            onRejected(events, form) {
              rejections.withoutId += events.filter(({ issues }) => issues.some(isMissingId)).length
              return report.note(events, form)
            },
          })
        }),
      ),
    )
  } finally {
    input.stream.destroy()
  }
}

/** `size` is the size of the file in bytes; null for a stream. */
function toProgress({ bytes, events, rejected }: SubmittedEvents, size: number | null): Progress {
  const read = size === null ? formatBytes(bytes) : `${formatBytes(bytes)} of ${formatBytes(size)}`
  const text = `${read}, ${formatCount(events, 'event')}${rejected > 0 ? `, ${rejected} rejected` : ''}`
  return { label: 'sending', done: bytes, total: size, text, isAnnounced: false }
}

function isMissingId({ code, path }: Issue): boolean {
  return code === 'required' && path === '/eventId'
}

function formatSummary(
  { events, bytes, accepted, duplicates, rejected, durationMs }: SubmittedEvents & { durationMs: number },
  { dryRun }: SendOptions,
): string {
  const perSecond = Math.round(events / Math.max(durationMs / 1000, 0.001))
  const outcome = `${accepted} accepted, ${formatCount(duplicates, 'duplicate')}, ${rejected} rejected`
  const speed = `${formatBytes(bytes)} in ${formatSeconds(durationMs)}, ${formatCount(perSecond, 'event')}/s`
  return `${dryRun ? 'validated' : 'sent'} ${formatCount(events, 'event')}: ${outcome}; ${speed}`
}

const unsent = 'events are left unsent'

/** Advice that says what another run would do. */
function rerunAdvice({ makeIds }: SendOptions): string {
  return makeIds
    ? `${unsent}; another run stores events without an eventId again`
    : `${unsent}; run it again to resume: stored events are reported as duplicates`
}

function toSendFailure(error: unknown, options: SendOptions): Failure {
  const failure = toFailure(error)
  const isEarly = failure.exitCode === exitCode.usage || failure.exitCode === exitCode.bug
  if (isEarly || failure.code === 'interrupted') return failure
  const [first = '', ...rest] = failure.exitCode === exitCode.temporary ? rerunAdvice(options) : unsent
  return { ...failure, message: `${failure.message} ${first.toUpperCase()}${rest.join('')}.` }
}

function rejectionFailure(
  { events, rejected }: SubmittedEvents,
  { withoutId }: SendProgress['rejections'],
  { rejected: file, dryRun }: SendOptions,
): Failure {
  const where = file === undefined ? '--rejected <file> writes them to a file' : `the rejected events are in ${file}`
  const ids = withoutId > 0 ? `; ${withoutId} without an eventId, for which --make-ids would generate one` : ''
  const others = rejected < events && !dryRun ? ', all others are stored' : ''
  const message = `${rejected} of ${formatCount(events, 'event')} ${rejected === 1 ? 'was' : 'were'} rejected${others}: ${where}${ids}`
  return { exitCode: exitCode.invalid, code: 'events-rejected', message, retryable: false }
}
