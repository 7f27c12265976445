import { type Columns, isCoordinate } from '../../heat/columns.ts'
import type { Pair } from '../../heat/pairs.ts'
import type { Box } from '../../heat/viewport.ts'
import type { PlayEvent } from './play-reader.ts'

export interface PathPoint {
  at: number
  x: number
  y: number
  /** Whether no line leads here from the previous point, which is of another session. */
  isStart: boolean
}

/** The positions of the events of a place, in order, without events that lack coordinates. */
export function pathOf(
  events: readonly PlayEvent[],
  columns: Columns,
  { pair, placeId }: { pair: Pair | undefined; placeId: string },
): PathPoint[] {
  const xs = pair && columns.get(pair.across)?.values
  const ys = pair && columns.get(pair.down)?.values
  const path: PathPoint[] = []
  let session: string | undefined
  for (const event of events) {
    const [x, y] = [xs?.[event.row], ys?.[event.row]]
    if (!isCoordinate(x) || !isCoordinate(y)) continue
    if (event.placeId !== '' && event.placeId !== placeId) continue
    path.push({ at: event.at, x, y, isStart: event.sessionId !== session })
    session = event.sessionId
  }
  return path
}

/** The position at a time: interpolated between two points of a session. Undefined before the first point. */
export function pointAt(path: readonly PathPoint[], at: number): { x: number; y: number } | undefined {
  const next = path.findIndex((point) => point.at > at)
  const before = next === -1 ? path.at(-1) : path[next - 1]
  const after = path[next]
  if (!before || !after || after.isStart) return before
  const share = (at - before.at) / (after.at - before.at)
  return { x: before.x + (after.x - before.x) * share, y: before.y + (after.y - before.y) * share }
}

export function boxOfPath(path: readonly PathPoint[]): Box | undefined {
  const [first, ...rest] = path
  if (!first) return undefined
  const box = { left: first.x, top: first.y, right: first.x, bottom: first.y }
  for (const { x, y } of rest) {
    box.left = Math.min(box.left, x)
    box.top = Math.min(box.top, y)
    box.right = Math.max(box.right, x)
    box.bottom = Math.max(box.bottom, y)
  }
  return box
}

/** The most frequent value that is not empty; '' if all values are empty. */
export function mostFrequent(values: readonly string[]): string {
  const counts = new Map<string, number>()
  for (const value of values) if (value !== '') counts.set(value, (counts.get(value) ?? 0) + 1)
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0] ?? ''
}
