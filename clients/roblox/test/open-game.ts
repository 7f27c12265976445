import { readFileSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'
import { type PlatformAnswer, type PlatformRequest, sendRequest } from './send-request.ts'

/** A request that a game has made, and when, in seconds of its own time. */
export interface Received extends PlatformRequest {
  at: number
}

/** A script that has begun. */
export interface Started {
  /** Undefined while it waits for something. */
  end?: { isFine: boolean; value: unknown }
}

interface Flight {
  answer?: PlatformAnswer
  isHeld: boolean
}

interface News {
  now: number
  isOver?: boolean
  requests: (Received & { id: string })[]
  ended: { id: number; isFine: boolean; value: unknown }[]
  output: string[]
  warnings: string[]
}

/** The time of a game that goes by while requests are under way, in step with that of the machine. */
export interface LiveClock {
  /** The time of day at its start, in seconds since 1970. */
  epoch: number
  /** How many seconds of the machine a second of the game takes. */
  timeScale: number
  /** When the platform gives up a request, in seconds of the game. */
  requestSecondsMax: number
  /** The time of the game by the clock of the machine, in seconds. */
  now(): number
}

export interface GameOptions {
  /** What every chance is, from 0 to 1; chances of the interpreter without. */
  random?: number
  secrets?: Record<string, string>
  /** Whether the game runs in Roblox Studio. */
  isStudio?: boolean
  /** Whether the settings of the game refuse HTTP requests. */
  isHttpDisabled?: boolean
  /** In place of a clock that only the test moves. */
  live?: LiveClock | undefined
  /** Sees a request before it is sent. */
  onRequest?: ((request: Received) => Promise<void> | void) | undefined
  /** Sees an answer before the game does, which gets another one if this returns it. */
  onAnswer?:
    | ((request: Received, answer: PlatformAnswer) => Promise<PlatformAnswer | undefined> | undefined)
    | undefined
}

const forever = 1e15
const fileOf = (name: string) => readFileSync(new URL(name, import.meta.url), 'utf8')

// The optimizing compiler takes most of a second for the interpreter, longer than most games run.
setFlagsFromString('--liftoff-only')
// In luau-web 1.4.0 the build for newer Nodes, with WebAssembly's promise integration, has a `pcall` that does not catch.
// It takes the other build when it does not see that.
Reflect.deleteProperty(Reflect.get(globalThis, 'WebAssembly'), 'Suspending')
const { LuauState } = await import('luau-web')

// one interpreter for all games: it runs one call at a time
const luau = await LuauState.createAsync()
await luau.loadstring(fileOf('platform.luau'), 'platform.luau', true)()
const [callPlatform] = await luau.loadstring('return command', 'command', true)()
let games = 0
const codes = new Map<string, number>()

/** The number of a script as a function, so that it is compiled once; line numbers stay. */
async function compile(source: string, name: string): Promise<number> {
  const known = codes.get(source)
  if (known !== undefined) return known
  const code = codes.size + 1
  codes.set(source, code)
  await luau.loadstring(`compiled[${code}] = function(...) ${source}\nend`, name, true)()
  return code
}

/** Says something to a platform, which answers with JSON. */
async function say(platform: number, what: object) {
  const [text] = await callPlatform(platform, JSON.stringify(what))
  return JSON.parse(text)
}

/**
 * A game server, whose scripts find the sender as `script.Parent.IngestSender`. Its time only goes by in `pass`, `until`
 * and `shutDown`, and never while a request is under way that is not held.
 */
export async function openGame({
  random,
  secrets,
  isStudio,
  isHttpDisabled,
  live,
  onRequest,
  onAnswer,
}: GameOptions = {}) {
  const platform = ++games
  const IngestSender = await compile(fileOf('../IngestSender.luau'), 'IngestSender.luau')
  const received: Received[] = []
  const output: string[] = []
  const warnings: string[] = []
  const air = createFlights({ received, live, onRequest, onAnswer })
  const scripts: Started[] = []
  let now = 0

  const tell = (what: object) => say(platform, what)
  const settle = () =>
    air.settle(async (id, answer) => {
      // a response does not come before the machine has received it: a pause would begin too early
      if (live) await advance(live.now())
      return command({ answers: id, ...answer })
    })

  async function command(what: object): Promise<News> {
    const news: News = await tell(what)
    now = news.now
    output.push(...news.output)
    warnings.push(...news.warnings)
    for (const { id, isFine, value } of news.ended) (scripts[id] as Started).end = { isFine, value }
    for (const request of news.requests) air.takeOff(request)
    return news
  }

  async function advance(to: number): Promise<void> {
    while (!(await command({ to })).isOver);
  }

  async function begin(what: object, count: number): Promise<Started[]> {
    const id = scripts.length
    const started = Array.from({ length: count }, () => ({}))
    scripts.push(...started)
    await command({ ...what, id })
    return started
  }

  /** Runs a script, which `...` gives the argument, until it waits for something. */
  async function start(source: string, argument?: unknown): Promise<Started> {
    const [started] = await begin({ start: await compile(source, 'script'), argument }, 1)
    return started as Started
  }

  async function until(started: Started) {
    for (;;) {
      await settle()
      if (started.end) return valueFrom(started)
      if ((await command({ to: forever })).isOver) throw new Error('nothing is left to wait for')
    }
  }

  await tell({ open: true, random, secrets, isStudio, isHttpDisabled, ...live, forever, modules: { IngestSender } })
  return {
    received,
    /** The errors in the console of the server. */
    output,
    /** The warnings there. */
    warnings,
    now: () => now,
    start,
    until,
    /** Runs a script that does not wait, and gives what it returns. */
    run: async (source: string, argument?: unknown) => valueFrom(await start(source, argument)),
    async pass(seconds: number): Promise<void> {
      const to = now + seconds
      do await settle()
      while (!(await command({ to })).isOver)
    },
    hold: air.hold,
    release: air.release,
    /** Calls what is bound to the close of the server, and tells how many seconds it took. */
    async shutDown(boundCount = 1): Promise<number> {
      const since = now
      for (const bound of await begin({ shutdown: true }, boundCount)) await until(bound)
      return now - since
    },
    /** Lets the interpreter forget it: it has little memory. */
    close: () => tell({ close: true }),
  }
}

function valueFrom({ end }: Started) {
  if (!end) throw new Error('the script waits for something')
  if (!end.isFine) throw new Error(`the script failed: ${end.value}`)
  // biome-ignore lint/suspicious/noExplicitAny: whatever a script returns
  return end.value as any
}

/** The requests that are under way. */
function createFlights({
  received,
  live,
  onRequest,
  onAnswer,
}: Pick<GameOptions, 'live' | 'onRequest' | 'onAnswer'> & { received: Received[] }) {
  const flights = new Map<string, Flight>()
  /** Called when an answer has come, or is no longer waited for. */
  let notify = () => {}
  return {
    takeOff(request: News['requests'][number]): void {
      const flight: Flight = { isHeld: live !== undefined }
      flights.set(request.id, flight)
      received.push(request)
      const fly = async () => {
        await onRequest?.(request)
        const answer = await sendRequest(request)
        flight.answer = (await onAnswer?.(request, answer)) ?? answer
        notify()
      }
      void fly()
    },
    /** Brings all answers home that come without a passing of time. */
    async settle(land: (id: string, answer: PlatformAnswer) => Promise<unknown>): Promise<void> {
      for (;;) {
        for (const [id, { answer }] of flights) {
          if (!answer) continue
          flights.delete(id)
          await land(id, answer)
        }
        const open = [...flights.values()]
        if (open.every(({ isHeld }) => isHeld)) return
        if (open.some(({ answer }) => answer)) continue
        await new Promise<void>((resolve) => {
          notify = resolve
        })
      }
    },
    /** From now on time goes by although what is under way has no answer. */
    hold(): void {
      for (const flight of flights.values()) flight.isHeld = true
      notify()
    },
    /** From now on time stands still until there are answers. */
    release(): void {
      for (const flight of flights.values()) flight.isHeld = false
    },
  }
}

export type Game = Awaited<ReturnType<typeof openGame>>
