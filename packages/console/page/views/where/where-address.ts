import type { QueryChanges } from '../../address.ts'
import type { Box, Viewport } from '../../heat/viewport.ts'

/** The choices in the view's address, besides the time range. The view chooses those that are undefined. */
export interface WhereAddress {
  buildId: string | undefined
  /** The build that is shown beside it. */
  versus: string | undefined
  /** '' for all places. */
  placeId: string | undefined
  playerId: string | undefined
  sessionId: string | undefined
  serverId: string | undefined
  /** Empty for all types. */
  types: readonly string[]
  /** JSON Pointers of the coordinates. */
  across: string | undefined
  down: string | undefined
  /** The visible part of the map; undefined for the whole map. */
  view: Viewport | undefined
  /** The cell whose events are listed. */
  cell: Box | undefined
}

export function parseWhere(query: URLSearchParams): WhereAddress {
  const get = (name: string) => query.get(name) ?? undefined
  const [x, y, unitsPerPixel] = numbersOf(query.get('at'), 3) ?? []
  const [left, top, right, bottom] = numbersOf(query.get('cell'), 4) ?? []
  return {
    buildId: get('build'),
    versus: get('versus') || undefined,
    placeId: get('place'),
    playerId: get('player') || undefined,
    sessionId: get('session') || undefined,
    serverId: get('server') || undefined,
    types: query.getAll('type'),
    across: get('across'),
    down: get('down'),
    view:
      x !== undefined && y !== undefined && unitsPerPixel !== undefined && unitsPerPixel > 0
        ? { x, y, unitsPerPixel }
        : undefined,
    cell:
      left !== undefined && top !== undefined && right !== undefined && bottom !== undefined && left < right
        ? { left, top, right, bottom }
        : undefined,
  }
}

/** The query members of choices: the inverse of `parseWhere`. */
export function formatWhere(changes: Partial<WhereAddress>): QueryChanges {
  const { view, cell } = changes
  const members: { [Name in keyof WhereAddress]: readonly [string, string | readonly string[] | undefined] } = {
    buildId: ['build', changes.buildId],
    versus: ['versus', changes.versus],
    placeId: ['place', changes.placeId],
    playerId: ['player', changes.playerId],
    sessionId: ['session', changes.sessionId],
    serverId: ['server', changes.serverId],
    types: ['type', changes.types],
    across: ['across', changes.across],
    down: ['down', changes.down],
    view: ['at', view && textOf([view.x, view.y, view.unitsPerPixel])],
    cell: ['cell', cell && textOf([cell.left, cell.top, cell.right, cell.bottom])],
  }
  const changed = Object.keys(changes) as (keyof WhereAddress)[]
  return Object.fromEntries(changed.map((name) => members[name]))
}

const textOf = (values: readonly number[]) => values.map((value) => Number(value.toPrecision(9))).join()

/** Undefined unless the text has exactly `length` finite numbers. */
function numbersOf(text: string | null, length: number): number[] | undefined {
  const numbers = (text ?? '').split(',').map((each) => (each.trim() === '' ? Number.NaN : Number(each)))
  return numbers.length === length && numbers.every(Number.isFinite) ? numbers : undefined
}
