import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, sep } from 'node:path'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import type { JsonObject } from '@ingest/core/internal'
import { type Arrivals, createArrivals } from './arrivals.ts'
import { type Counts, parseCounts, sortCounts, sumOf } from './counts.ts'
import { type StartOptions, type StartProgram, type WatchedProgram, watchProgram } from './program.ts'
import { type Exchange, openScriptedServer, type ScriptedServer } from './scripted-server.ts'
import { type Settings, scaleOf, toVariables } from './settings.ts'

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
  /** Resolves when the sender of the program has taken that many events. */
  accepted(count: number): Promise<void>
  /** When a request came on a connection that had been ended, in milliseconds; undefined without one since the last call. */
  takeLoss(): number | undefined
  /** Whether the program has printed this. */
  hasPrinted(secret: string): boolean
  /** Whether a request has arrived that `next` would return. */
  hasRequest(): boolean
  /** Whether the sender of the program takes that many events; false if the program ends before. */
  takes(count: number): Promise<boolean>
  /** Ends the standard input of the program, and resolves to its exit code and counts, whatever they are. */
  exit(): Promise<{ code: number | null; counts: Counts | undefined }>
  /** Stops the program and lets it continue. Undefined where there are no signals. */
  freezer(): { freeze(): void; thaw(): void } | undefined
  /** Starts another program beside the first one, with the same settings and spool. */
  startSecond(): Promise<SecondProgram>
  /** Kills the program. */
  kill(): Promise<void>
  /** Starts the program again, with other settings. `carried` events are in its spool; undefined: any number. */
  restart(settings: Settings, carried: number | undefined): Promise<void>
  /** The stored events, in their order. */
  stored(): Promise<JsonObject[]>
  /** Breaks the rule from outside of its script. */
  breakRule(seen: string): void
}

/** A program beside that of the play. */
export interface SecondProgram {
  send(events: readonly JsonObject[]): void
  flush(events: readonly JsonObject[]): void
  /** Whether its sender takes that many events; false if it ends before. */
  takes(count: number): Promise<boolean>
  /** Ends its standard input, and resolves when it has ended. */
  exit(): Promise<void>
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
  const arrivals = createArrivals()
  const server = await openScriptedServer(arrivals.add)
  const spool = await mkdtemp(join(tmpdir(), 'ingest-conformance-'))
  const elsewhere = join(`${spool}-elsewhere`, ...process.cwd().split(sep).fill('d'))
  await mkdir(elsewhere, { recursive: true })
  const programs: WatchedProgram[] = []
  try {
    const start = async (settings: Settings, how?: StartOptions) => {
      const program = watchProgram(await options.start(toVariables(settings, server.url, { spool, elsewhere }), how))
      programs.push(program)
      return program
    }
    await script(await createPlay({ ...options, arrivals, server, start }))
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
  start(settings: Settings, how?: StartOptions): Promise<WatchedProgram>
}

async function createPlay({ arrivals, server, start, patienceMs, signal, ...stage }: Stage): Promise<Play> {
  const broken = new AbortController()
  const stop = AbortSignal.any([signal, broken.signal])
  let settings = stage.settings
  let program = await start(settings)
  let given = 0
  let carried: number | undefined = 0

  /** Waits for an event, as long as patience lasts; otherwise \`what\` is what was seen. */
  const until = <T>(what: string, event: Promise<T>): Promise<T> =>
    withPatience(event, patienceMs, stop, () => `${what} within ${patienceMs / 1000} s${program.errors()}`)

  async function take(what: string): Promise<Exchange> {
    await until(what, arrival())
    return arrivals.take()
  }

  /** Resolves when there is a request. */
  const arrival = () => untilEnd(arrivals.any())

  /** Waits for an event; the end of the program before it breaks the rule. */
  async function untilEnd(event: Promise<void>): Promise<void> {
    const { ended, errors } = program
    const end = ended.then(async ({ code, signal }) => {
      // what arrived before the end counts
      if (await Promise.race([event.then(() => true), nextTurn(false)])) return
      throw new BrokenRule(`the program ended with ${signal ?? `exit code ${code}`}${errors()}`)
    })
    await Promise.race([event, end])
  }

  const takes = ({ accepted, ended }: WatchedProgram, count: number): Promise<boolean> =>
    until(
      `the program printed no line 'accepted ${count}', and did not end`,
      Promise.race([accepted(count).then(() => true), ended.then(() => false)]),
    )

  const play: Play = {
    send(events) {
      given += events.length
      give(program, events)
    },

    flush(events = []) {
      play.send(events)
      program.stdin.write('\n')
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
      if (arrivals.has()) throw new BrokenRule(`a request arrived ${why}`)
    },

    serve: arrivals.serve,

    async end() {
      const { stdin, ended, output, errors } = program
      stdin.end()
      const { code, signal } = await until('the program did not end', ended)
      if (code !== 0) throw new BrokenRule(`the program ended with ${signal ?? `exit code ${code}`}${errors()}`)
      const counts = parseCounts(output())
      if (!counts) {
        throw new BrokenRule(
          `the last line of standard output was ${JSON.stringify(output().slice(0, 500))}${errors()}`,
        )
      }
      const total = sumOf(counts)
      if (carried === undefined || total === given + carried) return counts
      throw new BrokenRule(`the counts add up to ${total} of ${given + carried} events: ${JSON.stringify(counts)}`)
    },

    async finish(expected) {
      play.serve((exchange) => exchange.accept())
      const counts = JSON.stringify(sortCounts(await play.end()))
      const none = { accepted: 0, duplicates: 0, rejected: 0, dropped: {}, unsent: 0 }
      if (counts !== JSON.stringify(sortCounts({ ...none, ...expected })))
        throw new BrokenRule(`the counts were ${counts}`)
    },

    accepted: (count) => until(`the program printed no line 'accepted ${count}'`, untilEnd(program.accepted(count))),
    takeLoss: server.takeLoss,
    hasPrinted: (secret) => program.hasPrinted(secret),

    hasRequest: arrivals.has,
    takes: (count) => takes(program, count),

    async exit() {
      const { stdin, ended, output } = program
      stdin.end()
      const { code } = await until('the program did not end', ended)
      return { code, counts: parseCounts(output()) }
    },

    freezer: () => program.freezer,

    async startSecond() {
      const second = await start(settings, { isIsolated: true })
      return {
        send: (events) => give(second, events),
        flush(events) {
          give(second, events)
          second.stdin.write('\n')
        },
        takes: (count) => takes(second, count),
        async exit() {
          second.stdin.end()
          await until('the second program did not end', second.ended)
        },
      }
    },

    async kill() {
      program.kill()
      await until('the program did not end', program.ended)
      server.disconnect()
    },

    async restart(next, left) {
      settings = next
      carried = left
      given = 0
      arrivals.reset()
      program = await start(settings)
    },

    stored: server.stored,
    breakRule: (seen) => broken.abort(new BrokenRule(seen)),
  }
  return play
}

function give({ stdin }: WatchedProgram, events: readonly JsonObject[]): void {
  stdin.write(events.map((event) => `${JSON.stringify(event)}\n`).join(''))
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
