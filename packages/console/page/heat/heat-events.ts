import { formatPointer } from '../json-pointer.ts'
import { createColumns, grow } from './columns.ts'
import { type Counts, countCells, type Grid } from './grid.ts'
import { findPairs, type Pair } from './pairs.ts'
import type { Box } from './viewport.ts'

/** The numbers, times, types and places of the events that were read. */
export interface HeatEvents {
  /** Adds an event, in the order of the log. */
  add(event: unknown, receivedAt: number): void
  summary(): EventSummary
  count(selection: Selection, grid: Grid): CountedEvents
  /** A box that holds the selected events, but a few far ones; undefined if none has coordinates. */
  extent(selection: Selection): Box | undefined
}

export interface Named {
  name: string
  count: number
}

export interface EventSummary {
  events: number
  /** By count, the most frequent first. An event without a type has the name ''. */
  types: Named[]
  /** Of the events that name a place, by count. */
  places: Named[]
  pairs: Pair[]
  /** Pointers of all members that are kept. */
  pointers: string[]
  /** When the first and the last event were received, in milliseconds since 1970. */
  from: number
  to: number
  /** Events in equal spans of this time. */
  timeline: number[]
  /** The members of the first event. */
  example: Member[]
}

/** Which events are shown, and by which members. */
export interface Selection {
  across: string
  down: string
  /** Default: all. */
  types?: readonly string[] | undefined
  /** Events that name another place are left out. Default: all places. */
  placeId?: string | undefined
  /** `receivedAt`, both included. */
  from: number
  to: number
}

export interface CountedEvents extends Counts {
  /** Events of the place, the types and the time. */
  selected: number
  /** Those of them that have both coordinates. */
  located: number
}

const namesMax = 1_000
const restName = 'other types'
const timelineLength = 60
// enough for percentiles
const sampleMax = 20_000

export function createHeatEvents(wanted: readonly string[] = []): HeatEvents {
  const columns = createColumns(wanted)
  const types = createNames()
  const places = createNames()
  let times = new Float64Array(1_024)
  let example: Member[] = []

  /** Which events are selected, whether or not they have coordinates. */
  function filterOf({ types: shown, placeId, from, to }: Selection): (index: number) => boolean {
    const isType = types.mask((name) => !shown || shown.includes(name))
    const isPlace = places.mask((name) => placeId === undefined || name === '' || name === placeId)
    return (i) => {
      const at = times[i] as number
      return (
        at >= from && at <= to && isType[types.indexes[i] as number] === 1 && isPlace[places.indexes[i] as number] === 1
      )
    }
  }

  function pointsOf({ across, down }: Selection): Points | undefined {
    const xs = columns.get(across)?.values
    const ys = columns.get(down)?.values
    return xs && ys && { xs, ys, length: columns.rows }
  }

  return {
    add(event, receivedAt) {
      const row = columns.rows
      if (row === 0) example = listMembers(event)
      times = grow(times, row + 1)
      times[row] = receivedAt
      const { type, placeId } = (event ?? {}) as { type?: unknown; placeId?: unknown }
      types.add(row, typeof type === 'string' ? type : '')
      places.add(row, typeof placeId === 'string' || typeof placeId === 'number' ? String(placeId) : '')
      columns.add(event)
    },
    summary() {
      const events = columns.rows
      const [from, to] = rangeOf(times, events)
      return {
        events,
        types: types.list(),
        places: places.list().filter(({ name }) => name !== ''),
        pairs: findPairs(columns),
        pointers: columns.list().map(({ pointer }) => pointer),
        from,
        to,
        timeline: timelineOf(times, events, from, to),
        example,
      }
    },
    count(selection, grid) {
      const isShown = filterOf(selection)
      const points = pointsOf(selection)
      let selected = 0
      let located = 0
      for (let i = 0; i < columns.rows; i++) {
        if (!isShown(i)) continue
        selected++
        if (points && isLocated(points, i)) located++
      }
      const none = { xs: new Float64Array(), ys: new Float64Array(), length: 0 }
      return { ...countCells(grid, points ?? none, isShown), selected, located }
    },
    extent(selection) {
      const points = pointsOf(selection)
      return points && extentOf(points, filterOf(selection))
    },
  }
}

interface Points {
  xs: Float64Array
  ys: Float64Array
  length: number
}

function isLocated({ xs, ys }: Points, index: number): boolean {
  return !Number.isNaN(xs[index]) && !Number.isNaN(ys[index])
}

function extentOf(points: Points, isShown: (index: number) => boolean): Box | undefined {
  const shown: number[] = []
  for (let i = 0; i < points.length; i++) if (isLocated(points, i) && isShown(i)) shown.push(i)
  if (shown.length === 0) return undefined
  const [left, right] = span(points.xs, shown)
  const [top, bottom] = span(points.ys, shown)
  return { left, top, right, bottom }
}

/** The least and the greatest value, without the outer hundredths if these are far away. */
function span(values: Float64Array, indexes: readonly number[]): [number, number] {
  const every = Math.ceil(indexes.length / sampleMax)
  const sample = indexes.filter((_, i) => i % every === 0).map((index) => values[index] as number)
  const sorted = Float64Array.from(sample).sort()
  const at = (share: number) => sorted[Math.round(share * (sorted.length - 1))] as number
  let least = Number.POSITIVE_INFINITY
  let greatest = Number.NEGATIVE_INFINITY
  for (const index of indexes) {
    const value = values[index] as number
    if (value < least) least = value
    if (value > greatest) greatest = value
  }
  const usual = at(0.99) - at(0.01)
  const isFar = usual > 0 && greatest - least > 5 * usual
  return isFar ? [Math.max(least, at(0.01) - usual / 4), Math.min(greatest, at(0.99) + usual / 4)] : [least, greatest]
}

function rangeOf(times: Float64Array, length: number): [number, number] {
  let from = Number.POSITIVE_INFINITY
  let to = Number.NEGATIVE_INFINITY
  for (let i = 0; i < length; i++) {
    const at = times[i] as number
    if (at < from) from = at
    if (at > to) to = at
  }
  return length === 0 ? [0, 0] : [from, to]
}

function timelineOf(times: Float64Array, length: number, from: number, to: number): number[] {
  const timeline = new Array<number>(timelineLength).fill(0)
  for (let i = 0; i < length; i++) {
    const share = to > from ? ((times[i] as number) - from) / (to - from) : 0
    const at = Math.min(timelineLength - 1, Math.floor(share * timelineLength))
    timeline[at] = (timeline[at] as number) + 1
  }
  return timeline
}

interface Names {
  /** The number of each row's name. */
  readonly indexes: Uint16Array
  add(row: number, name: string): void
  /** 1 for the numbers of the names for which `is` holds. */
  mask(is: (name: string) => boolean): Uint8Array
  list(): Named[]
}

/** At most 1,000 different names; the others share one. */
function createNames(): Names {
  const numbers = new Map<string, number>()
  const names: Named[] = []
  let indexes = new Uint16Array(1_024)

  function numberOf(name: string): number {
    const known = numbers.get(name)
    if (known !== undefined) return known
    if (names.length >= namesMax && name !== restName) return numberOf(restName)
    numbers.set(name, names.length)
    return names.push({ name, count: 0 }) - 1
  }

  return {
    get indexes() {
      return indexes
    },
    add(row, name) {
      indexes = grow(indexes, row + 1)
      const number = numberOf(name)
      indexes[row] = number
      ;(names[number] as Named).count++
    },
    mask: (is) => Uint8Array.from(names, ({ name }) => (is(name) ? 1 : 0)),
    list: () => names.map((each) => ({ ...each })).sort((a, b) => b.count - a.count),
  }
}

/** One member of an event and its type. */
export interface Member {
  pointer: string
  kind: 'string' | 'number' | 'boolean' | 'null' | 'array' | 'object'
}

const membersMax = 60

/** The members of a JSON value, with those of its objects and short arrays, at most 60. */
export function listMembers(value: unknown): Member[] {
  const members: Member[] = []
  visit(value, [])
  return members

  function visit(at: unknown, tokens: readonly string[]): void {
    if (members.length >= membersMax) return
    const kind = kindOf(at)
    const isOpened = kind === 'object' || (kind === 'array' && (at as unknown[]).length <= 3)
    if (tokens.length > 0 && !isOpened) members.push({ pointer: formatPointer(tokens), kind })
    if (isOpened) for (const [name, member] of Object.entries(at as object)) visit(member, [...tokens, name])
  }
}

function kindOf(value: unknown): Member['kind'] {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  return typeof value as Member['kind']
}
