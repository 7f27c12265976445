import { setTimeout as sleep } from 'node:timers/promises'
import type { CallOptions } from '@ingest/client'
import {
  type Cursor,
  eventLine,
  type FollowOptions,
  followEvents,
  type Ingest,
  IngestError,
  type StoredEvent,
} from '@ingest/core'
import { Command, Option } from 'commander'
import { addTargetOptions, connectToKnown, parseTarget, type Target } from '../connect.ts'
import { hasColors, type Io, printMessage, writeStdout } from '../io.ts'
import { addFilterOptions, parseFilter, parseTimeOption, wholeNumber } from '../options.ts'
import { formatDay, formatEventRow } from '../terminal/event-row.ts'
import { escapeControlCharacters } from '../terminal/format.ts'
import { abortOnSignal } from '../terminal/on-signal.ts'

interface TailOptions {
  limit?: number
  after?: string
  since?: string
  json?: true
}

/** Maximum pause between attempts to reach a server, in milliseconds. */
const pauseMsMax = 5000

export function tailCommand(io: Io): Command {
  const command = addTargetOptions(
    addFilterOptions(new Command('tail').description('print the events of a project as they are stored'))
      .option('--after <cursor>', 'start after the event with this cursor; by default with new events')
      .addOption(
        new Option(
          '--since <time>',
          'start with events received since: 10m, 2h, 2026-11-20T17:51:00Z, or milliseconds since 1970',
        ).conflicts('after'),
      )
      .option('--limit <n>', 'end after this many events', wholeNumber(1, Number.MAX_SAFE_INTEGER))
      .option('--json', 'print NDJSON on a terminal too: { "cursor", "receivedAt", "event" }; an object on failure'),
  )
  return command.addHelpText('after', tailHelp).action(async (options: TailOptions) => {
    // follow() does its own retries, to report them
    const target = { ...parseTarget(command), retries: 0 }
    const start = parseStart(options)
    const write = createEventWriter(io, options.json ?? false)
    await abortOnSignal(io, '', (signal) =>
      connectToKnown(io, target, (ingest) =>
        follow(io, ingest, { target, start, signal, write, limit: options.limit }),
      ),
    )
  })
}

const tailHelp = `
On a terminal, each event is one row: time of receipt, type, build, player, and as much of the other fields as fits. In a
pipe, the output is NDJSON. Exit code 130 after SIGINT, 0 after --limit events, or when
the reader closed the pipe.
While the server or the database is unreachable, tail retries without a limit, whatever --retries is, and resumes where
it stopped.

Examples:
  ingest tail --store data/games --project demo --type round.end
  INGEST_KEY=… ingest tail --url http://127.0.0.1:8787 --project demo --since 10m
`

function parseStart({ after, since, ...filter }: TailOptions): FollowOptions {
  return {
    ...parseFilter(filter),
    ...(after !== undefined && { after }),
    ...(since !== undefined && { from: parseTimeOption('--since', since) }),
  }
}

/** Writes one event; resolves to false once the reader has closed the pipe. */
type Write = (event: StoredEvent) => Promise<boolean>

function createEventWriter(io: Io, isJson: boolean): Write {
  const { stdout } = io
  if (!stdout.isTTY) return (event) => writeStdout(io, eventLine(event))
  // escaping would change tabs between JSON tokens
  if (isJson)
    return (event) =>
      writeStdout(io, `${escapeControlCharacters(eventLine(event).toString().trimEnd().replaceAll('\t', ' '))}\n`)
  const areColored = hasColors(stdout, io.env)
  let day = formatDay(Date.now())
  return (event) => {
    const own = formatDay(event.receivedAt)
    const heading = own === day ? '' : `${own}\n`
    day = own
    const row = formatEventRow(event, { columns: stdout.columns || 80, hasColors: areColored })
    return writeStdout(io, `${heading}${row}\n`)
  }
}

/** An embedded Ingest ignores the call options; a client uses them. */
interface CursorSource {
  lastCursor(options?: CallOptions): Promise<Cursor>
}

interface Following {
  target: Target
  start: FollowOptions
  signal: AbortSignal
  write: Write
  limit: number | undefined
}

/** Resolves after `limit` events, or once the reader has closed the pipe. */
async function follow(io: Io, ingest: Ingest, { target, start, signal, write, limit }: Following): Promise<void> {
  let left = limit ?? Number.POSITIVE_INFINITY
  const cursors: CursorSource = ingest
  const source = target.url === undefined ? 'database' : 'server'
  const { createBackoff } = await import('@ingest/client')
  const backoff = createBackoff()
  let after = start.after
  let isUnreachable = false
  for (;;) {
    try {
      // first, because following from a time or a cursor may notice an unreachable server late
      const end = await cursors.lastCursor({ signal })
      if (after === undefined && start.from === undefined) after = end
      if (isUnreachable) printMessage(io, `the ${source} is reachable again`)
      isUnreachable = false
      const options = { ...start, ...(after !== undefined && { after }), signal, onProgress }
      for await (const event of followEvents(ingest, options)) {
        if (!(await write(event)) || --left === 0) return
      }
    } catch (error) {
      signal.throwIfAborted()
      if (!(error instanceof IngestError) || !isTransient(error, target)) throw error
      if (!isUnreachable) printMessage(io, `waiting for the ${source}: ${error.message}`)
      isUnreachable = true
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

function isTransient({ code, retryable }: IngestError, { url }: Target): boolean {
  if (url === undefined) return code === 'store-unavailable'
  // the operator of the server may repair the store
  return retryable || code.startsWith('store-')
}
