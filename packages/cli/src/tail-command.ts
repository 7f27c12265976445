import { setTimeout as sleep } from 'node:timers/promises'
import type { FollowOptions, Ingest, IngestError, StoredEvent } from '@ingest/core'
import { Command, Option } from 'commander'
import { notEmpty, timeOf } from './options.ts'
import { untilSignal } from './until-signal.ts'
import { addTargetOptions, type Target, targetOf, withTarget } from './with-target.ts'
import { writeOut } from './write-out.ts'

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
export function tailCommand(): Command {
  const command = addTargetOptions(
    new Command('tail')
      .description('follow the events of a project as they come in')
      .option('--type <type>', 'only events of this type', notEmpty)
      .addOption(new Option('--build <id>', 'only events of this build').argParser(notEmpty))
      .option('--after <cursor>', 'begin behind the event with this cursor, and not with what comes from now on')
      .addOption(
        new Option(
          '--since <time>',
          'begin with what was received since: 10m, 2h, 2026-11-20T17:51:00Z, or milliseconds since 1970',
        ).conflicts('after'),
      )
      .option('--json', 'NDJSON on a terminal, too: { "cursor", "receivedAt", "event" } a line'),
  )
  return command.addHelpText('after', tailHelp).action(async (options: TailOptions) => {
    // a request that fails is sent again here, where it can be said
    const target = { ...targetOf(command), retries: 0 }
    const start = await startOf(options)
    const write = await openOutput(options.json ?? false)
    await untilSignal('', (signal) => withTarget(target, (ingest) => follow(ingest, target, start, signal, write)))
  })
}

const tailHelp = `
On a terminal, an event is a line with the time at which it was received, its type, build and player, and the rest as far
as it fits. In a pipe it is NDJSON. SIGINT ends it, as does a reader that goes away; that is 130 and 0.
When a server goes away, tail waits for it, whatever --retries says, and goes on where it was.
`

async function startOf({ type, build, after, since }: TailOptions): Promise<FollowOptions> {
  return {
    ...(type !== undefined && { type }),
    ...(build !== undefined && { buildId: build }),
    ...(after !== undefined && { after }),
    ...(since !== undefined && { from: await timeOf('--since', since) }),
  }
}

/** Writes one event; false once nobody reads them any more. */
type Write = (event: StoredEvent) => Promise<boolean>

async function openOutput(isJson: boolean): Promise<Write> {
  const { stdout } = process
  const [{ eventLine }, { dayOf, eventRow }, { visible }] = await Promise.all([
    import('@ingest/core'),
    import('./event-row.ts'),
    import('./visible.ts'),
  ])
  if (!stdout.isTTY) return (event) => writeOut(eventLine(event))
  // between the tokens of JSON a tab is a space
  if (isJson) return (event) => writeOut(`${visible(eventLine(event).toString().trimEnd().replaceAll('\t', ' '))}\n`)
  let day = dayOf(Date.now())
  return (event) => {
    const own = dayOf(event.receivedAt)
    const heading = own === day ? '' : `${own}\n`
    day = own
    return writeOut(`${heading}${eventRow(event, { columns: stdout.columns || 80, hasColors: stdout.hasColors() })}\n`)
  }
}

/** Resolves when nobody reads any more. */
async function follow(
  ingest: Ingest,
  { project, url }: Target,
  start: FollowOptions,
  signal: AbortSignal,
  write: Write,
): Promise<void> {
  const [{ followEvents, IngestError }, { createBackoff }] = await Promise.all([
    import('@ingest/core'),
    import('@ingest/client'),
  ])
  const backoff = createBackoff()
  // what cannot be reached to begin with is rather a slip of the pen than something that comes back
  const end = await ingest.lastCursor(project)
  let after = start.after ?? (start.from === undefined ? end : undefined)
  let isAway = false
  for (;;) {
    try {
      if (isAway) await ingest.lastCursor(project)
      if (isAway) say('the server is back')
      isAway = false
      for await (const event of followEvents(ingest, project, {
        ...start,
        ...(after && { after }),
        signal,
        onProgress,
      })) {
        if (!(await write(event))) return
      }
    } catch (error) {
      if (url === undefined || !(error instanceof IngestError) || !isPassing(error)) throw error
      if (!isAway) say(`waiting for the server: ${error.message}`)
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

function isPassing({ code, retryable }: IngestError): boolean {
  // what a server's store suffers from is its operator's, who may have it repaired
  return retryable || code.startsWith('store-')
}

function say(text: string): void {
  process.stderr.write(`ingest: ${text}\n`)
}
