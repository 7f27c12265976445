import { formatPointer } from '../json-pointer.ts'
import { createColumns, grow, isCoordinate } from './columns.ts'
import { type Counts, countCells, type Grid } from './grid.ts'
import { findPairs, type Pair } from './pairs.ts'
import type { Box } from './viewport.ts'
import { hash } from './windows.ts'

/** The numbers, times, types, places and ids of the events read so far. */
export interface HeatEvents {
  readonly length: number
  add(event: unknown, receivedAt: number): void
  summary(): EventSummary
  /** The number of selected events that have both coordinates. */
  located(selection: Selection): number
  /** Counts the located events by cell; if they are more than `shownMax`, a random sample, always the same one. */
  count(selection: Selection, grid: Grid, shownMax?: number): CountedEvents
  /** A box around the selected events, without a few outliers; undefined if none has coordinates. */
  extent(selection: Selection): Box | undefined
  /** The events in a box, of those that `count` counts, newest first. */
  list(selection: Selection, box: Box, limit: number, shownMax?: number): ListedEvent[]
}

export interface Named {
  name: string
  count: number
}

export interface EventSummary {
  events: number
  /** Most frequent first. Events without a type are counted as ''. */
  types: Named[]
  /** The places that events name, most frequent first. */
  places: Named[]
  pairs: Pair[]
  /** The members of the first event. */
  example: Member[]
}

/** Selects the events to show, and the members used as coordinates. */
export interface Selection {
  across: string
  down: string
  /** Default: all. */
  types?: readonly string[] | undefined
  /** Omits events that name another place. Default: all places. */
  placeId?: string | undefined
}

export interface CountedEvents extends Counts {
  /** Number of events with the place and types. */
  selected: number
  /** Number of these events that have both coordinates. */
  located: number
  /** Number of these events that the cells count. */
  shown: number
}

export interface ListedEvent {
  eventId: string
  receivedAt: number
  type: string
  across: number
  down: number
}

const namesMax = 1_000
const restName = 'other types'
// enough for percentiles
const sampleMax = 20_000

export function createHeatEvents(): HeatEvents {
  const columns = createColumns()
  const types = createNames()
  const places = createNames()
  const ids = createTexts()
  let times = new Float64Array(1_024)
  let example: Member[] = []

  /** Whether an event is selected, with or without coordinates. */
  function filterOf({ types: shown, placeId }: Selection): (index: number) => boolean {
    const isType = types.mask((name) => !shown || shown.includes(name))
    const isPlace = places.mask((name) => placeId === undefined || name === '' || name === placeId)
    return (i) => isType[types.indexes[i] as number] === 1 && isPlace[places.indexes[i] as number] === 1
  }

  function pointsOf({ across, down }: Selection): Points {
    const valuesOf = (pointer: string) => columns.get(pointer)?.values ?? new Float64Array()
    return { xs: valuesOf(across), ys: valuesOf(down), length: columns.rows }
  }

  /** Marks the rows of the located events, or of at most `shownMax` of them. */
  function locate(selection: Selection, shownMax = Number.POSITIVE_INFINITY) {
    const isSelected = filterOf(selection)
    const points = pointsOf(selection)
    const marks = new Uint8Array(columns.rows)
    let selected = 0
    let located = 0
    for (let i = 0; i < columns.rows; i++) {
      if (!isSelected(i)) continue
      selected++
      if (!isLocated(points, i)) continue
      located++
      marks[i] = 1
    }
    const shown = Math.min(located, shownMax)
    if (shown < located) chooseMarks(marks, located, shown)
    return { points, marks, selected, located, shown }
  }

  return {
    get length() {
      return columns.rows
    },
    add(event, receivedAt) {
      const row = columns.rows
      if (row === 0) example = listMembers(event)
      times = grow(times, row + 1)
      times[row] = receivedAt
      const { type, placeId, eventId } = (event ?? {}) as { type?: unknown; placeId?: unknown; eventId?: unknown }
      types.add(row, typeof type === 'string' ? type : '')
      places.add(row, typeof placeId === 'string' || typeof placeId === 'number' ? String(placeId) : '')
      ids.add(typeof eventId === 'string' ? eventId : '')
      columns.add(event)
    },
    summary: () => ({
      events: columns.rows,
      types: types.list(),
      places: places.list().filter(({ name }) => name !== ''),
      pairs: findPairs(columns),
      example,
    }),
    located: (selection) => locate(selection).located,
    count(selection, grid, shownMax) {
      const { points, marks, ...numbers } = locate(selection, shownMax)
      return { ...countCells(grid, points, (i) => marks[i] === 1), ...numbers }
    },
    extent(selection) {
      return extentOf(pointsOf(selection), filterOf(selection))
    },
    list(selection, { left, top, right, bottom }, limit, shownMax) {
      const { points, marks } = locate(selection, shownMax)
      const found: number[] = []
      for (let i = 0; i < points.length; i++) {
        const [x, y] = [points.xs[i] as number, points.ys[i] as number]
        const isInside = x >= left && x < right && y >= top && y < bottom
        if (isInside && marks[i] === 1) found.push(i)
      }
      const newest = found.sort((a, b) => (times[b] as number) - (times[a] as number)).slice(0, limit)
      return newest.map((i) => ({
        eventId: ids.get(i),
        receivedAt: times[i] as number,
        type: types.nameAt(i),
        across: points.xs[i] as number,
        down: points.ys[i] as number,
      }))
    },
  }
}

interface Points {
  xs: Float64Array
  ys: Float64Array
  length: number
}

function isLocated({ xs, ys }: Points, index: number): boolean {
  return isCoordinate(xs[index]) && isCoordinate(ys[index])
}

/**
 * Keeps `kept` of the marks, each with the same chance (Knuth, The Art of Computer Programming, 3.4.2, algorithm S).
 * Keeping every n-th mark would be biased if the events have a period.
 */
function chooseMarks(marks: Uint8Array, marked: number, kept: number): void {
  let [needed, left] = [kept, marked]
  for (const [row, mark] of marks.entries()) {
    if (mark === 0) continue
    if ((hash(row + 1) / 2 ** 32) * left < needed) needed--
    else marks[row] = 0
    left--
  }
}

function extentOf(points: Points, isShown: (index: number) => boolean): Box | undefined {
  const shown: number[] = []
  for (let i = 0; i < points.length; i++) if (isLocated(points, i) && isShown(i)) shown.push(i)
  if (shown.length === 0) return undefined
  const [left, right] = span(points.xs, shown)
  const [top, bottom] = span(points.ys, shown)
  return { left, top, right, bottom }
}

/** The minimum and maximum, without the outer hundredths if these are far away. */
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

interface Names {
  /** The index of each row's name. */
  readonly indexes: Uint16Array
  add(row: number, name: string): void
  /** 1 for each name that matches, otherwise 0. */
  mask(matches: (name: string) => boolean): Uint8Array
  nameAt(row: number): string
  list(): Named[]
}

/** Holds at most 1,000 different names; further names share one. */
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
    nameAt: (row) => names[indexes[row] as number]?.name ?? '',
    mask: (matches) => Uint8Array.from(names, ({ name }) => (matches(name) ? 1 : 0)),
    list: () => names.map((each) => ({ ...each })).sort((a, b) => b.count - a.count),
  }
}

/** One member of an event and its type. */
export interface Member {
  pointer: string
  kind: 'string' | 'number' | 'boolean' | 'null' | 'array' | 'object'
}

const membersMax = 60

/** The members of a JSON value, including those of nested objects and short arrays; at most 60. */
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

/** Many short texts, packed as UTF-8 without an object for each. */
interface Texts {
  add(text: string): void
  get(index: number): string
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()

function createTexts(): Texts {
  let bytes = new Uint8Array(65_536)
  let ends = new Uint32Array(1_024)
  let length = 0
  let end = 0
  return {
    add(text) {
      // at most three bytes per UTF-16 code unit
      bytes = grow(bytes, end + 3 * text.length)
      ends = grow(ends, length + 1)
      end += encoder.encodeInto(text, bytes.subarray(end)).written
      ends[length++] = end
    },
    get: (index) => decoder.decode(bytes.subarray(index === 0 ? 0 : ends[index - 1], ends[index])),
  }
}
