import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { JsonObject } from '@ingest/core/internal'
import type { Program, StartProgram } from './program.ts'
import { type Exchange, key, openScriptedServer, projectId } from './scripted-server.ts'

/** What the program gets in its environment. */
export interface Settings {
  /** `INGEST_TIME_SCALE`. Default 0.001. */
  timeScale?: number
  /** `INGEST_TIMEOUT_MS`. Default 30,000. */
  timeoutMs?: number
  /** `INGEST_FLUSH_MS`. Default 600,000: only full batches are sent without a flush. */
  flushMs?: number
  /** `INGEST_QUEUE_EVENTS`. Default 10,000. */
  queueEvents?: number
  /** `INGEST_CLOSE_MS`. Default 600,000. */
  closeMs?: number
  /** Whether `INGEST_SPOOL` names a directory. Default false. */
  hasSpool?: boolean
}

/** The counts that a program prints at its end. */
export interface Counts {
  accepted: number
  duplicates: number
  rejected: number
  dropped: Readonly<Record<string, number>>
  unsent: number
}

/** Thrown by a rule that is broken. The message says what was seen. */
export class BrokenRule extends Error {
  override readonly name = 'BrokenRule'
}

/** A program and the server that it sends to, as the rules see them. Methods throw a {@link BrokenRule}. */
export interface Play {
  /** Gives events to the program. */
  send(events: readonly JsonObject[]): void
  /** Gives events to the program, and an empty line, so that they are sent at once. */
  flush(events?: readonly JsonObject[]): void
  /** The next request. The rule has to respond to it. */
  next(): Promise<Exchange>
  /** The next request, which has to hold the events of an earlier one. */
  retryOf(exchange: Exchange): Promise<Exchange>
  /** Like `retryOf`, not before `pauseMs` of the sender's time after the response. */
  retryAfter(exchange: Exchange, pauseMs: number): Promise<Exchange>
  /** Resolves after that many milliseconds without a request. */
  quiet(ms: number, why: string): Promise<void>
  /** Responds to all further requests, also those that have arrived. */
  serve(respond: (exchange: Exchange) => unknown): void
  /** Ends the standard input of the program, and resolves to its counts when it has ended. */
  end(): Promise<Counts>
  /** Accepts all further batches and ends the program, whose counts have to be these. */
  finish(counts: Partial<Counts>): Promise<void>
  /** Kills the program. */
  kill(): Promise<void>
  /** Starts the program again, with other settings. `carried` events are in its spool; undefined: any number. */
  restart(settings: Settings, carried: number | undefined): Promise<void>
  /** The stored events, in their order. */
  stored(): Promise<JsonObject[]>
  /** Breaks the rule from outside of its script. */
  breakRule(seen: string): void
}

export interface PlayOptions {
  start: StartProgram
  settings: Settings
  /** How long a step may take, in milliseconds. */
  patienceMs: number
  signal: AbortSignal
}

/** Runs `script` with a program and a server of its own. */
export async function runPlay(options: PlayOptions, script: (play: Play) => Promise<void>): Promise<void> {
  const { start, patienceMs, signal } = options
  const arrived: Exchange[] = []
  const broken = new AbortController()
  const waiting: (() => void)[] = []
  let respond: ((exchange: Exchange) => unknown) | undefined
  const server = await openScriptedServer((exchange) => {
    if (respond) return void respond(exchange)
    arrived.push(exchange)
    for (const onArrival of waiting.splice(0)) onArrival()
  })
  const spool = await mkdtemp(join(tmpdir(), 'ingest-conformance-'))
  let settings = options.settings
  let run: Run | undefined
  let given = 0
  let carried: number | undefined = 0

  async function startRun(): Promise<void> {
    given = 0
    run = watch(await start(toVariables(settings, server.url, spool)))
  }

  /** Waits for an event, as long as the program runs and patience lasts. */
  async function until<T>(what: string, event: Promise<T>): Promise<T> {
    const settled = new AbortController()
    const stop = AbortSignal.any([signal, broken.signal])
    const never = new Promise<never>((_, reject) => {
      const onAbort = () => reject(stop.reason)
      if (stop.aborted) onAbort()
      else stop.addEventListener('abort', onAbort)
    })
    const patience = sleep(patienceMs, undefined, { signal: settled.signal }).then(() => {
      throw new BrokenRule(`${what} within ${patienceMs / 1000} s${running().errors()}`)
    })
    patience.catch(() => {})
    never.catch(() => {})
    try {
      return await Promise.race([event, never, patience])
    } finally {
      settled.abort()
    }
  }

  function running(): Run {
    if (!run) throw new Error('the program is not running')
    return run
  }

  /** Resolves when there is a request that no rule has taken. */
  async function arrival(): Promise<void> {
    if (arrived.length > 0) return
    const { program, errors } = running()
    const ended = program.ended.then(({ code, signal }) => {
      throw new BrokenRule(`the program ended with ${signal ?? `exit code ${code}`}${errors()}`)
    })
    await Promise.race([new Promise<void>((resolve) => waiting.push(resolve)), ended])
  }

  async function take(what: string): Promise<Exchange> {
    await until(what, arrival())
    return arrived.shift() as Exchange
  }

  function write(text: string): void {
    running().program.stdin.write(text)
  }

  const play: Play = {
    send(events) {
      given += events.length
      write(events.map((event) => `${JSON.stringify(event)}\n`).join(''))
    },

    flush(events = []) {
      play.send(events)
      write('\n')
    },

    next: () => take('no request arrived'),

    async retryOf(exchange) {
      const retry = await take('the batch was not sent again')
      const [ids, before] = [idsOf(retry), idsOf(exchange)]
      if (ids.join() === before.join()) return retry
      throw new BrokenRule(`the next request had the events ${ids.join(', ')} in place of ${before.join(', ')}`)
    },

    async retryAfter(exchange, pauseMs) {
      const retry = await play.retryOf(exchange)
      const waitedMs = retry.arrivedAt - (exchange.respondedAt ?? 0)
      const leastMs = pauseMs * scaleOf(settings)
      // timers count whole milliseconds
      if (waitedMs > leastMs * 0.99 - 2) return retry
      throw new BrokenRule(`the batch was sent again after ${Math.round(waitedMs)} ms, not ${Math.round(leastMs)} ms`)
    },

    async quiet(ms, why) {
      await until('', Promise.race([sleep(ms), arrival()]))
      if (arrived.length > 0) throw new BrokenRule(`a request arrived ${why}`)
    },

    serve(next) {
      respond = next
      for (const exchange of arrived.splice(0)) next(exchange)
    },

    async end() {
      const { program, output, errors } = running()
      program.stdin.end()
      const { code, signal } = await until('the program did not end', program.ended)
      if (code !== 0) throw new BrokenRule(`the program ended with ${signal ?? `exit code ${code}`}${errors()}`)
      const counts = parseCounts(output())
      if (!counts) throw new BrokenRule(`the last line of standard output was ${quote(output())}${errors()}`)
      const total = sumOf(counts)
      if (carried === undefined || total === given + carried) return counts
      throw new BrokenRule(`the counts add up to ${total} of ${given + carried} events: ${JSON.stringify(counts)}`)
    },

    async finish(expected) {
      play.serve((exchange) => exchange.accept())
      const counts = await play.end()
      const none = { accepted: 0, duplicates: 0, rejected: 0, dropped: {}, unsent: 0 }
      const differs = JSON.stringify(ordered(counts)) !== JSON.stringify(ordered({ ...none, ...expected }))
      if (differs) throw new BrokenRule(`the counts were ${JSON.stringify(ordered(counts))}`)
    },

    async kill() {
      const { program } = running()
      program.kill()
      await until('the program did not end', program.ended)
      server.disconnect()
      arrived.length = 0
    },

    async restart(next, left) {
      settings = next
      carried = left
      respond = undefined
      await startRun()
    },

    stored: () => server.stored(),
    breakRule: (seen) => broken.abort(new BrokenRule(seen)),
  }

  try {
    await startRun()
    await script(play)
  } finally {
    run?.program.kill()
    await server.close()
    await run?.program.ended
    await rm(spool, { recursive: true, force: true })
  }
}

/** The program of a play, and what it has written. */
interface Run {
  program: Program
  /** The last line of its standard output. */
  output(): string
  /** The last lines of its standard error, for a message. */
  errors(): string
}

const outputCharsMax = 64 * 1024

function watch(program: Program): Run {
  const texts = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    program[name].setEncoding('utf8').on('data', (chunk) => {
      texts[name] = `${texts[name]}${chunk}`.slice(-outputCharsMax)
    })
  }
  return {
    program,
    output: () => texts.stdout.trimEnd().split('\n').at(-1) ?? '',
    errors: () => (texts.stderr === '' ? '' : `; standard error: ${quote(texts.stderr.trim().slice(-500))}`),
  }
}

function toVariables(settings: Settings, url: string, spool: string): Record<string, string> {
  const { timeoutMs = 30_000, flushMs = 600_000, queueEvents = 10_000, closeMs = 600_000, hasSpool } = settings
  return {
    INGEST_URL: url,
    INGEST_PROJECT: projectId,
    INGEST_KEY: key,
    INGEST_TIME_SCALE: String(scaleOf(settings)),
    INGEST_TIMEOUT_MS: String(timeoutMs),
    INGEST_FLUSH_MS: String(flushMs),
    INGEST_QUEUE_EVENTS: String(queueEvents),
    INGEST_CLOSE_MS: String(closeMs),
    INGEST_SPOOL: hasSpool ? spool : '',
  }
}

function scaleOf({ timeScale = 0.001 }: Settings): number {
  return timeScale
}

/** The ids of the events in a request. */
export function idsOf({ events }: Exchange): unknown[] {
  return events.map(({ eventId }) => eventId)
}

function parseCounts(line: string): Counts | undefined {
  try {
    const { accepted, duplicates, rejected, dropped, unsent } = JSON.parse(line)
    const counts = { accepted, duplicates, rejected, dropped, unsent }
    const numbers = [accepted, duplicates, rejected, unsent, ...Object.values(dropped)]
    return numbers.every((number) => Number.isSafeInteger(number) && (number as number) >= 0) ? counts : undefined
  } catch {
    return undefined
  }
}

function sumOf({ accepted, duplicates, rejected, dropped, unsent }: Counts): number {
  return accepted + duplicates + rejected + unsent + totalOf(dropped)
}

/** The sum of all reasons. */
export function totalOf(dropped: Counts['dropped']): number {
  return Object.values(dropped).reduce((sum, count) => sum + count, 0)
}

/** The same counts with their reasons in order, without those of 0. */
function ordered({ dropped, ...counts }: Counts): object {
  const reasons = Object.entries(dropped).filter(([, count]) => count > 0)
  return { ...counts, dropped: Object.fromEntries(reasons.sort(([a], [b]) => (a < b ? -1 : 1))) }
}

function quote(text: string): string {
  return JSON.stringify(text.slice(0, 500))
}
