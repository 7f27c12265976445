import { eventsType } from '../api/api.ts'
import { type EventLine, readEventLines } from '../api/event-lines.ts'
import { RequestError } from '../api/request-error.ts'
import type { FilterQuery } from '../event-filter.ts'
import { createHeatEvents, type EventSummary, type HeatEvents } from '../heat/heat-events.ts'
import { createWindows, type Windows } from '../heat/windows.ts'
import type { CallContext } from './call-context.ts'

/** Selects the events of which a sample is read. */
export interface SampleQuery {
  filter: FilterQuery
  /** Milliseconds since 1970: `from <= receivedAt < to`. */
  from: number
  to: number
}

/** When to stop reading until the page queries for more: at whichever limit comes first. */
export interface ReadingGoal {
  windows: number
  events: number
}

export interface SampleProgress extends EventSummary {
  /** Windows that were read. */
  windows: number
  /** The end of the range that was read; later than that of the query if it is live. */
  until: number
  /** Whether it has only some of the events of its build. */
  isFiltered: boolean
  /** The share of the range that was read, and so each event's chance to be in the sample; 1 for all. */
  share: number
}

interface Sample {
  query: SampleQuery
  events: HeatEvents
  windows: Windows
  /** The position of the next window to read. */
  next: number
  /** Windows that were interrupted. */
  open: OpenWindow[]
  /** Whether the whole range is being tried as one window. */
  isTrial: boolean
  /** The current end of the range, see `extend`. */
  until: number
  tail?: OpenWindow | undefined
}

interface OpenWindow {
  from: number
  to: number
  /** Events up to this cursor are in the sample. */
  cursor?: string | undefined
  /** When the last of these events was received. */
  reachedAt?: number
}

/** Samples in the worker: the page only receives counts. */
interface Samples {
  /**
   * Reads some windows; once the goal is reached, also new events until `until`. Describes everything read so far.
   * Progress is reported even before a failure.
   */
  read(
    request: { query: SampleQuery; goal: ReadingGoal; until?: number | undefined },
    context: CallContext<SampleProgress>,
  ): Promise<SampleProgress>
  get(query: SampleQuery): HeatEvents | undefined
}

/** Maximum number of events in all samples; their numbers take up to 320 bytes per event, usually 100. */
const eventsMax = 1_000_000
const eventsPerResponse = 2_000
const trialResponsesMax = 3
const probesMax = 24
const parallelWindows = 6
const batchMin = 12
const batchMax = 96

/** Keeps samples; evicts the least recently used one if they have too many events. */
export function createSamples(): Samples {
  /** Least recently used first. */
  const kept = new Map<string, Sample>()

  function use(query: SampleQuery): Sample | undefined {
    const found = findComplete(kept.values(), query) ?? kept.get(keyOf(query))
    if (found) keep(found)
    return found
  }

  function keep(sample: Sample): void {
    const key = keyOf(sample.query)
    kept.delete(key)
    kept.set(key, sample)
    let total = 0
    for (const { events } of kept.values()) total += events.length
    for (const [oldest, { events }] of kept) {
      // never evict two samples that are shown side by side
      if (total <= eventsMax || kept.size <= 2) return
      kept.delete(oldest)
      total -= events.length
    }
  }

  function describe(sample: Sample): SampleProgress {
    const summary = sample.events.summary()
    const windows = sample.next - sample.open.length
    return {
      ...summary,
      types: typesOf(kept.values(), sample, summary),
      windows,
      until: sample.until,
      isFiltered: Object.entries(sample.query.filter).some(
        ([name, value]) => name !== 'buildId' && value !== undefined,
      ),
      share: shareOf(sample),
    }
  }

  return {
    async read({ query, goal, until = query.to }, context) {
      let sample = use(query) ?? createTrial(query)
      try {
        if (sample.isTrial) sample = await finishTrial(sample, context)
        if (!isReached(sample, goal)) await readBatch(sample, goal, context)
        else await extend(sample, until, context)
      } catch (error) {
        context.onProgress(describe(sample))
        throw error
      } finally {
        keep(sample)
      }
      return describe(sample)
    },
    get: (query) => use(query)?.events,
  }
}

/** Ignores members that are undefined. */
function keyOf({ filter, from, to }: SampleQuery): string {
  const members = Object.entries(filter).filter(([, value]) => value !== undefined)
  return JSON.stringify([from, to, members.sort()])
}

/** A complete sample that contains all of these events; the page filters it by type and place. */
function findComplete(samples: Iterable<Sample>, query: SampleQuery): Sample | undefined {
  const key = keyOf(withoutPageFilters(query))
  for (const sample of samples) if (shareOf(sample) === 1 && keyOf(sample.query) === key) return sample
  return undefined
}

function withoutPageFilters({
  filter: { type: _type, placeId: _placeId, ...filter },
  ...query
}: SampleQuery): SampleQuery {
  return { ...query, filter }
}

/** The types to choose from: those of a sample of all types, if there is one. */
function typesOf(samples: Iterable<Sample>, { query }: Sample, summary: EventSummary): EventSummary['types'] {
  if (query.filter.type === undefined) return summary.types
  const { type: _type, ...filter } = query.filter
  const key = keyOf({ ...query, filter })
  for (const { query, events } of samples) if (keyOf(query) === key) return events.summary().types
  return summary.types
}

/** A sample that tries the whole range as one window, because few events can be read at once. */
function createTrial(query: SampleQuery): Sample {
  const windows = createWindows({ ...query, total: 0 })
  const open = query.from < query.to ? [{ from: query.from, to: query.to }] : []
  return { query, events: createHeatEvents(), windows, next: 1, open, isTrial: true, until: query.to }
}

/** The sample itself if it is complete, otherwise a new one with many windows. */
async function finishTrial(sample: Sample, context: CallContext<SampleProgress>): Promise<Sample> {
  const { query, open, events } = sample
  const [window] = open
  for (let responses = 0; window && events.length < eventsPerResponse; responses++) {
    if (responses === trialResponsesMax) break
    if (await readResponse(sample, window, context)) open.pop()
    if (open.length === 0) break
  }
  if (open.length === 0) return { ...sample, isTrial: false }
  return {
    query,
    events: createHeatEvents(),
    windows: createWindows({ ...query, total: await estimateTotal(query, context) }),
    next: 0,
    open: [],
    isTrial: false,
    until: query.to,
  }
}

/** The estimated number of events, from the shortest windows; 1 if there are too few to tell. */
async function estimateTotal(query: SampleQuery, { api, signal }: CallContext<SampleProgress>): Promise<number> {
  const shortest = createWindows({ ...query, total: Number.POSITIVE_INFINITY })
  const probed = Math.min(probesMax, shortest.count)
  let found = 0
  for (let order = 0; order < probed; order += parallelWindows) {
    const probes = Array.from({ length: Math.min(parallelWindows, probed - order) }, async (_, i) => {
      const parameters = { ...query.filter, ...shortest.window(order + i), limit: eventsPerResponse }
      const lines = await api.events({ query: parameters, signal })
      return lines.filter(({ receivedAt }) => receivedAt > 0).length
    })
    for (const count of await Promise.all(probes)) found += count
  }
  return Math.max(1, (found * shortest.count) / probed)
}

function shareOf({ windows, next, open }: Sample): number {
  const missing = open.reduce((sum, { from, to, reachedAt = from }) => sum + (to - reachedAt) / (to - from), 0)
  return (next - missing) / windows.count
}

function isReached({ windows, next, open, events }: Sample, goal: ReadingGoal): boolean {
  if (open.length > 0) return false
  return next >= Math.min(goal.windows, windows.count) || events.length >= goal.events
}

/**
 * Adds new events, as if the range ended later. Of the time that has passed, it reads the same share as of the range,
 * at a random place, so that each event has the same chance.
 */
async function extend(sample: Sample, until: number, context: CallContext<SampleProgress>): Promise<void> {
  if (!sample.tail && until > sample.until) {
    const passed = until - sample.until
    const length = Math.round(passed * shareOf(sample))
    const from = sample.until + Math.floor(Math.random() * (passed - length + 1))
    sample.tail = { from, to: from + length }
    sample.until = until
  }
  const { tail } = sample
  while (tail && tail.from < tail.to && !(await readResponse(sample, tail, context)));
  sample.tail = undefined
}

/** Reads windows concurrently. The first failure ends it; the next call resumes interrupted windows. */
async function readBatch(sample: Sample, goal: ReadingGoal, context: CallContext<SampleProgress>): Promise<void> {
  const batch = Math.max(batchMin, Math.min(batchMax, Math.ceil(sample.next / 4)))
  const end = Math.min(sample.next + batch, sample.windows.count, Math.max(goal.windows, sample.next))
  const interrupted = [...sample.open]
  let failure: { error: unknown } | undefined

  function nextWindow(): OpenWindow | undefined {
    const resumed = interrupted.pop()
    if (resumed || sample.next >= end) return resumed
    const window: OpenWindow = sample.windows.window(sample.next++)
    sample.open.push(window)
    return window
  }
  async function readWindows(): Promise<void> {
    for (let window = nextWindow(); window && !failure; window = nextWindow()) {
      while (window.from < window.to && !(await readResponse(sample, window, context)));
      // a cancelled call may have removed it before
      sample.open = sample.open.filter((each) => each !== window)
    }
  }
  await Promise.all(
    Array.from({ length: parallelWindows }, () =>
      readWindows().catch((error) => {
        failure ??= { error }
      }),
    ),
  )
  if (failure) throw failure.error
}

/** Resolves to whether the end of the window was reached. Events are kept if the response breaks off. */
async function readResponse(
  { query: { filter }, events }: Pick<Sample, 'query' | 'events'>,
  window: OpenWindow,
  { api, signal }: CallContext<SampleProgress>,
): Promise<boolean> {
  const before = window.cursor
  const parameters = { ...filter, from: window.from, to: window.to, after: before, limit: eventsPerResponse }
  const response = await api.fetch('v1/events', eventsType, { query: parameters, signal })
  try {
    for await (const lines of readEventLines(response)) {
      // a cancelled call must not add events that its successor reads again
      signal.throwIfAborted()
      for (const line of lines) addLine(line)
    }
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof RequestError) throw error
    throw new RequestError('offline', 'The response was interrupted.')
  }
  return window.cursor === before

  function addLine({ cursor, receivedAt, text }: EventLine): void {
    if (text !== undefined) events.add(JSON.parse(text), receivedAt)
    if (receivedAt > 0) window.reachedAt = receivedAt
    window.cursor = cursor
  }
}
