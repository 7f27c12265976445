import { setTimeout as sleep } from 'node:timers/promises'
import type { CallOptions } from '@ingest/client'
import type { Cursor, FollowOptions, Ingest, IngestError, StoredEvent } from '@ingest/core'
import { Command, Option } from 'commander'
import { addTargetOptions, type Target, parseTarget, connect } from '../connect.ts'
import { hasColors, type Io, printMessage, writeStdout } from '../io.ts'
import { nonEmpty, parseTimeOption } from '../options.ts'
import { abortOnSignal } from '../terminal/on-signal.ts'

interface TailOptions {
  type?: string
  build?: string
  after?: string
  since?: string
  json?: true
}

/** The longest pause before somebody who watches hears again of a server that is back. */
const pauseMsMax = 5000

/** `ingest tail`. */
export function tailCommand(io: Io): Command {
  const command = addTargetOptions(
    new Command('tail')
      .description('follow the events of a project as they come in')
      .option('--type <type>', 'only events of this type', nonEmpty)
      .addOption(new Option('--build <id>', 'only events of this build').argParser(nonEmpty))
      .option('--after <cursor>', 'begin behind the event with this cursor, and not with what comes from now on')
      .addOption(
        new Option(
          '--since <time>',
          'begin with what was received since: 10m, 2h, 2026-11-20T17:51:00Z, or milliseconds since 1970',
        ).conflicts('after'),
      )
      .option('--json', 'lines of JSON on a terminal, too: { "cursor", "receivedAt", "event" }; an object on failure'),
  )
  return command.addHelpText('after', tailHelp).action(async (options: TailOptions) => {
    // a request that fails is sent again here, where it can be said
    const target = { ...parseTarget(command), retries: 0 }
    const start = await parseStart(options)
    const write = await createEventWriter(io, options.json ?? false)
    await abortOnSignal(io, '', (signal) =>
      connect(io, target, (ingest) => follow(io, ingest, { target, start, signal, write })),
    )
  })
}

const tailHelp = `
On a terminal, an event is a line with the time at which it was received, its type, build and player, and the rest as far
as it fits. In a pipe it is NDJSON. SIGINT ends it, as does a reader that goes away; that is 130 and 0.
When a server is not there, or goes away, tail waits for it, whatever --retries says, and goes on where it was.

Examples:
  ingest tail --data data/games --project demo --type round.end
  INGEST_KEY=… ingest tail --url http://127.0.0.1:8787 --project demo --since 10m
`

async function parseStart({ type, build, after, since }: TailOptions): Promise<FollowOptions> {
  return {
    ...(type !== undefined && { type }),
    ...(build !== undefined && { buildId: build }),
    ...(after !== undefined && { after }),
    ...(since !== undefined && { from: await parseTimeOption('--since', since) }),
  }
}

/** Writes one event; false once nobody reads them any more. */
type Write = (event: StoredEvent) => Promise<boolean>

async function createEventWriter(io: Io, isJson: boolean): Promise<Write> {
  const { stdout } = io
  const [{ eventLine }, { formatDay, formatEventRow }, { escapeControlCharacters }] = await Promise.all([
    import('@ingest/core'),
    import('../terminal/event-row.ts'),
    import('../terminal/format.ts'),
  ])
  if (!stdout.isTTY) return (event) => writeStdout(io, eventLine(event))
  // between the tokens of JSON a tab is a space
  if (isJson)
    return (event) => writeStdout(io, `${escapeControlCharacters(eventLine(event).toString().trimEnd().replaceAll('\t', ' '))}\n`)
  const areColored = hasColors(stdout, io.env)
  let day = formatDay(Date.now())
  return (event) => {
    const own = formatDay(event.receivedAt)
    const heading = own === day ? '' : `${own}\n`
    day = own
    return writeStdout(io, `${heading}${formatEventRow(event, { columns: stdout.columns || 80, hasColors: areColored })}\n`)
  }
}

/** Reads the last cursor, in this process or over HTTP. */
interface CursorSource {
  lastCursor(options?: CallOptions): Promise<Cursor>
}

interface Following {
  target: Target
  start: FollowOptions
  signal: AbortSignal
  write: Write
}

/** Resolves when the reader has gone away. */
async function follow(io: Io, ingest: Ingest, { target, start, signal, write }: Following): Promise<void> {
  const { url } = target
  const source: CursorSource = ingest
  const [{ followEvents, IngestError }, { createBackoff }] = await Promise.all([
    import('@ingest/core'),
    import('@ingest/client'),
  ])
  const backoff = createBackoff()
  let after = start.after
  let isAway = false
  for (;;) {
    try {
      // first, because following from a time or a cursor may not show at once that the server is away
      const end = await source.lastCursor({ signal })
      if (after === undefined && start.from === undefined) after = end
      if (isAway) printMessage(io, 'the server is back')
      isAway = false
      const options = { ...start, ...(after !== undefined && { after }), signal, onProgress }
      for await (const event of followEvents(ingest, options)) {
        if (!(await write(event))) return
      }
    } catch (error) {
      signal.throwIfAborted()
      if (url === undefined || !(error instanceof IngestError) || !isTransient(error)) throw error
      if (!isAway) printMessage(io, `waiting for the server: ${error.message}`)
      isAway = true
      const floorMs = (error.retryAfterSeconds ?? 0) * 1000
      await sleep(Math.max(floorMs, Math.min(backoff.next(), pauseMsMax)), undefined, { signal }).catch(() => {
        signal.throwIfAborted()
      })
    }
  }

  function onProgress(cursor: string): void {
    after = cursor
    backoff.reset()
  }
}

function isTransient({ code, retryable }: IngestError): boolean {
  // what a server's store suffers from is its operator's, who may have it repaired
  return retryable || code.startsWith('store-')
}
