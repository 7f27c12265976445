import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, sep } from 'node:path'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import type { JsonObject } from '@ingest/core/internal'
import { type Arrivals, createArrivals } from './arrivals.ts'
import { type Counts, parseCounts, sortCounts, sumOf } from './counts.ts'
import { type Freezer, type StartOptions, type StartProgram, type WatchedProgram, watchProgram } from './program.ts'
import { type Exchange, openScriptedServer, type ScriptedServer } from './scripted-server.ts'
import { type Settings, scaleOf, toVariables } from './settings.ts'

/** Thrown by a rule that is broken. The message says what was seen. */
export class BrokenRule extends Error {
  override readonly name = 'BrokenRule'
}

/** Thrown by a rule that cannot be checked here. The message says why. */
export class SkippedRule extends Error {
  override readonly name = 'SkippedRule'
}

/** A running program. Methods throw a {@link BrokenRule}. */
export interface Sending {
  /** Gives events to the program. */
  send(events: readonly JsonObject[]): void
  /** Gives events and an empty line to the program, which then sends them at once. */
  flush(events?: readonly JsonObject[]): void
  /** Waits until its sender has taken that many events; false if the program ends before. */
  takes(count: number): Promise<boolean>
  /** Ends its standard input, and resolves with any exit code and counts. `how` describes its end in a message. */
  exit(): Promise<{ code: number | null; how: string; counts: Counts | undefined }>
}

/** A program and the server that it sends to, as the rules see them. */
export interface Play extends Sending {
  /** The next request, to which the rule must respond. */
  next(): Promise<Exchange>
  /** The next request, which must repeat the events of an earlier one after a pause within these limits, in sender time. */
  retryOf(exchange: Exchange, leastMs?: number, mostMs?: number): Promise<Exchange>
  /** Resolves after that many milliseconds without a request. */
  quiet(ms: number, why: string): Promise<void>
  /** Responds to the queued requests and all later ones. */
  serve(respond: (exchange: Exchange) => unknown): void
  /** Refuses all connections for that many milliseconds. @throws {SkippedRule} if another process takes the port */
  refuse(ms: number): Promise<void>
  /** Ends the standard input of the program, and resolves with its counts when it has ended. */
  end(): Promise<Counts>
  /** Accepts all further batches and ends the program, which must print these counts. */
  finish(counts: Partial<Counts>): Promise<void>
  /** Whether the program has printed this. */
  hasPrinted(secret: string): boolean
  /** Stops the program and lets it continue. @throws {SkippedRule} where there are no signals */
  freezer(): Freezer
  /** Starts another program beside the first one, with the same settings and spool. */
  startAnother(options?: StartOptions): Promise<Sending & { kill(): Promise<void> }>
  /** Kills the program if it runs, and starts it again, with changed settings. `carried` events are in its spool. */
  restart(carried?: number | 'any', changes?: Settings): Promise<void>
  /** The directory of the spool. */
  readonly spool: string
  /** The stored events, in order. */
  stored(): Promise<JsonObject[]>
  /** Fails the rule from outside its script. */
  breakRule(seen: string): void
}

export interface PlayOptions {
  start: StartProgram
  settings: Settings
  /** How long a step may take, in milliseconds. */
  patienceMs: number
  signal: AbortSignal
}

/** Runs `script` with its own program and server. Resolves with what could not be checked here; null if nothing. */
export async function runPlay(options: PlayOptions, script: (play: Play) => Promise<void>): Promise<string | null> {
  const arrivals = createArrivals()
  const server = await openScriptedServer(arrivals.add)
  const spool = await mkdtemp(join(tmpdir(), 'ingest-conformance-'))
  const elsewhere = join(`${spool}-elsewhere`, ...process.cwd().split(sep).fill('d'))
  await mkdir(elsewhere, { recursive: true })
  const programs: WatchedProgram[] = []
  let note: string | null = null
  try {
    const start = async (settings: Settings, how: StartOptions = {}) => {
      const program = watchProgram(await options.start(toVariables(settings, server.url, { spool, elsewhere }), how))
      programs.push(program)
      if (how.isIsolated && !program.isIsolated) note = 'not between containers: no PID namespace can be made here'
      return program
    }
    await script(await createPlay({ ...options, arrivals, server, spool, start }))
    return note
  } finally {
    for (const program of programs) program.kill()
    await server.close()
    for (const { ended } of programs) await ended
    for (const path of [spool, `${spool}-elsewhere`]) await rm(path, { recursive: true, force: true })
  }
}

interface Stage extends Omit<PlayOptions, 'start'> {
  arrivals: Arrivals
  server: ScriptedServer
  spool: string
  start(settings: Settings, how?: StartOptions): Promise<WatchedProgram>
}

async function createPlay({ arrivals, server, spool, start, patienceMs, signal, ...stage }: Stage): Promise<Play> {
  const broken = new AbortController()
  const stop = AbortSignal.any([signal, broken.signal])
  let settings = stage.settings
  let program = await start(settings)
  let carried: number | 'any' = 0

  /** Waits for an event for at most `patienceMs`; afterwards the rule is broken by `what`. */
  const until = <T>(what: string, event: Promise<T>, { errors } = program): Promise<T> =>
    withPatience(event, patienceMs, stop, () => `${what} within ${patienceMs / 1000} s${errors()}`)

  async function take(what: string): Promise<Exchange> {
    await until(what, arrival())
    return arrivals.take()
  }

  /** Resolves when a request has arrived. If the program ends before, the rule is broken. */
  async function arrival(): Promise<void> {
    const { ended, errors } = program
    const event = arrivals.any()
    const end = ended.then(async ({ code, signal }) => {
      // a request that arrived before the end counts
      if (await Promise.race([event.then(() => true), nextTurn(false)])) return
      throw new BrokenRule(`the program ended with ${signal ?? `exit code ${code}`}${errors()}`)
    })
    await Promise.race([event, end])
  }

  function drive(running: () => WatchedProgram): Sending {
    return {
      send: (events) => running().give(events),

      flush(events = []) {
        running().give(events)
        running().stdin.write('\n')
      },

      takes(count) {
        const { taken, ended } = running()
        const event = Promise.race([taken(count).then(() => true), ended.then(() => false)])
        return until(`the program printed no line 'taken ${count}', and did not end`, event, running())
      },

      async exit() {
        const { stdin, ended, output, errors } = running()
        stdin.end()
        const { code, signal } = await until('the program did not end', ended, running())
        return { code, how: `${signal ?? `exit code ${code}`}${errors()}`, counts: parseCounts(output()) }
      },
    }
  }

  const play: Play = {
    ...drive(() => program),
    next: () => take('no request arrived'),

    async retryOf(exchange, leastMs = 0, mostMs = Number.POSITIVE_INFINITY) {
      const retry = await take('the batch was not sent again')
      const [ids, before] = [idsOf(retry), idsOf(exchange)]
      if (ids.join() !== before.join())
        throw new BrokenRule(`the next request had the events ${ids.join(', ')} in place of ${before.join(', ')}`)
      const pausedMs = pauseBefore(retry, exchange)
      const least = leastMs * scaleOf(settings)
      const most = mostMs * scaleOf(settings)
      // timers count whole milliseconds
      if (pausedMs > least * 0.99 - 2 && pausedMs < most) return retry
      const bounds = Number.isFinite(most) ? `${Math.round(least)} to ${Math.round(most)}` : Math.round(least)
      throw new BrokenRule(`the batch was sent again after ${Math.round(pausedMs)} ms, not ${bounds} ms`)
    },

    async quiet(ms, why) {
      await until('', Promise.race([sleep(ms), arrival()]))
      if (arrivals.has()) throw new BrokenRule(`a request arrived ${why}`)
    },

    serve: arrivals.serve,

    async refuse(ms) {
      try {
        await server.refuse(ms)
      } catch (error) {
        throw new SkippedRule(`another program took the port of the server: ${(error as Error).message}`)
      }
    },

    async end() {
      const { code, how, counts } = await play.exit()
      const { given, output, errors } = program
      if (code !== 0) throw new BrokenRule(`the program ended with ${how}`)
      if (!counts) {
        const line = JSON.stringify(output().slice(0, 500))
        throw new BrokenRule(`the last line of standard output was ${line}${errors()}`)
      }
      const total = sumOf(counts)
      if (carried === 'any' || total === given() + carried) return counts
      throw new BrokenRule(`the counts add up to ${total} of ${given() + carried} events: ${JSON.stringify(counts)}`)
    },

    async finish(expected) {
      play.serve((exchange) => exchange.accept())
      const counts = JSON.stringify(sortCounts(await play.end()))
      const none = { accepted: 0, duplicates: 0, rejected: 0, dropped: {}, unsent: 0 }
      if (counts !== JSON.stringify(sortCounts({ ...none, ...expected })))
        throw new BrokenRule(`the counts were ${counts}`)
    },

    hasPrinted: (secret) => program.hasPrinted(secret),

    freezer() {
      if (program.freezer) return program.freezer
      throw new SkippedRule('the program cannot be stopped here: there are no signals')
    },

    async startAnother(how) {
      const another = await start(settings, how)
      return {
        ...drive(() => another),
        async kill() {
          another.kill()
          await until('the program did not end', another.ended, another)
        },
      }
    },

    async restart(left = 0, changes = {}) {
      program.kill()
      await until('the program did not end', program.ended)
      server.disconnect()
      settings = { ...settings, ...changes }
      carried = left
      arrivals.reset()
      program = await start(settings)
    },

    spool,
    stored: server.stored,
    breakRule: (seen) => broken.abort(new BrokenRule(seen)),
  }
  return play
}

async function withPatience<T>(
  event: Promise<T>,
  patienceMs: number,
  stop: AbortSignal,
  describe: () => string,
): Promise<T> {
  const settled = new AbortController()
  const never = sleep(patienceMs, undefined, { signal: AbortSignal.any([settled.signal, stop]) }).then(
    () => {
      throw new BrokenRule(describe())
    },
    () => {
      throw stop.reason
    },
  )
  try {
    return await Promise.race([event, never])
  } finally {
    settled.abort()
  }
}

/** The ids of the events in a request. */
export function idsOf({ events }: Exchange): unknown[] {
  return events.map(({ eventId }) => eventId)
}

/** The milliseconds from the response to an earlier request until this one. */
export function pauseBefore({ arrivedAt }: Exchange, { respondedAt = 0 }: Exchange): number {
  return arrivedAt - respondedAt
}
