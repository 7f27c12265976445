import { type Columns, isCoordinate } from '../../heat/columns.ts'
import type { Pair } from '../../heat/pairs.ts'
import type { Box } from '../../heat/viewport.ts'
import type { DrawOver } from '../where/parts-map.tsx'
import type { PlayEvent } from './play-reader.ts'

interface PathPoint {
  at: number
  x: number
  y: number
  /** Whether no line leads here from the previous point, which is of another session. */
  isStart: boolean
}

export interface Path {
  /** In the order of play. */
  points: PathPoint[]
  playerId: string
  placeId: string
  buildId: string
}

/**
 * The path of one player through one place, those with the most events, and the most frequent build on it. Events
 * without coordinates are left out; those without a player or place are counted in.
 */
export function pathOf(events: readonly PlayEvent[], columns: Columns, pair: Pair | undefined): Path {
  const xs = pair && columns.get(pair.across)?.values
  const ys = pair && columns.get(pair.down)?.values
  const positions = events.flatMap((event) => {
    const [x, y] = [xs?.[event.row], ys?.[event.row]]
    return isCoordinate(x) && isCoordinate(y) ? [{ event, x, y }] : []
  })
  const mostOf = (name: 'playerId' | 'placeId' | 'buildId', of: typeof positions) =>
    mostFrequent(of.map(({ event }) => event[name]))
  const playerId = mostOf('playerId', positions)
  const ofPlayer = positions.filter(({ event }) => event.playerId === '' || event.playerId === playerId)
  const placeId = mostOf('placeId', ofPlayer)
  const ofPlace = ofPlayer.filter(({ event }) => event.placeId === '' || event.placeId === placeId)
  const points = ofPlace.map(({ event, x, y }, i) => {
    return { at: event.at, x, y, isStart: event.sessionId !== ofPlace[i - 1]?.event.sessionId }
  })
  return { points, playerId, placeId, buildId: mostOf('buildId', ofPlace) }
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
function mostFrequent(values: readonly string[]): string {
  const counts = new Map<string, number>()
  for (const value of values) if (value !== '') counts.set(value, (counts.get(value) ?? 0) + 1)
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0] ?? ''
}

/** Draws the path; the part up to a time has a strong colour. */
export function drawPath(path: readonly PathPoint[], at: number): DrawOver {
  return (context, toPixels, theme) => {
    const end = path.findLastIndex((point) => point.at <= at)
    const here = pointAt(path, at)
    const color = getComputedStyle(document.documentElement).getPropertyValue('--link').trim()
    context.lineJoin = 'round'
    context.lineCap = 'round'
    drawLine(path.length, theme.muted, 1)
    drawLine(end + 1, color, 2.5)
    if (here) {
      context.beginPath()
      context.arc(...toPixels(here.x, here.y), 7, 0, 2 * Math.PI)
      context.fillStyle = color
      context.fill()
      context.strokeStyle = theme.background
      context.stroke()
    }

    /** Draws the first `length` points, and the line to `here` if these are not all. */
    function drawLine(length: number, color: string, width: number): void {
      context.beginPath()
      for (const { x, y, isStart } of path.slice(0, length)) {
        context[isStart ? 'moveTo' : 'lineTo'](...toPixels(x, y))
        // makes a single point visible
        if (isStart) context.lineTo(...toPixels(x, y))
      }
      if (here && length < path.length && length > 0) context.lineTo(...toPixels(here.x, here.y))
      context.strokeStyle = color
      context.lineWidth = width
      context.stroke()
    }
  }
}
