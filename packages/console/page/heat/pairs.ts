import { formatPointer, parsePointer } from '../json-pointer.ts'
import { type Columns, isCoordinate } from './columns.ts'

/** Two members that may be coordinates, and the number of events with a number in both. */
export interface Pair {
  across: string
  down: string
  count: number
}

/** Member names that form a pair, preferred first: maps are viewed from above, and y is up. */
const names = [
  ['x', 'z'],
  ['x', 'y'],
  ['X', 'Z'],
  ['X', 'Y'],
  ['0', '2'],
  ['0', '1'],
] as const

const parents = ['/position', '', '/pos', '/location']

/** Lists the pairs for which `findPairs` looks. */
export const lookedFor =
  '/position/x and /position/z, /x and /z, /x and /y, /position/0 and /position/2, and the same below other members'

/** The pairs found in events, most frequent first. */
export function findPairs(columns: Columns): Pair[] {
  const pairs = columns.list().flatMap(({ pointer }) => {
    const tokens = parsePointer(pointer) ?? []
    const parent = formatPointer(tokens.slice(0, -1))
    return names
      .filter(([name]) => name === tokens.at(-1))
      .map(([, name]) => ({ across: pointer, down: `${parent}/${name}`, parent, count: 0 }))
      .filter(({ down }) => columns.get(down))
  })
  for (const pair of pairs) pair.count = countBoth(columns, pair.across, pair.down)
  return pairs
    .filter(({ count }) => count > 0)
    .sort((a, b) => b.count - a.count || rankParent(a.parent) - rankParent(b.parent))
    .map(({ across, down, count }) => ({ across, down, count }))
}

/** Number of events with a number in both members. */
function countBoth(columns: Columns, across: string, down: string): number {
  const xs = columns.get(across)?.values
  const ys = columns.get(down)?.values
  if (!xs || !ys) return 0
  let count = 0
  for (let i = 0; i < columns.rows; i++) if (isCoordinate(xs[i]) && isCoordinate(ys[i])) count++
  return count
}

/** The axis named by a pointer's last token: 0, 1 or 2 for x, y or z. */
export function axisOf(pointer: string): 0 | 1 | 2 | undefined {
  const name = pointer.slice(pointer.lastIndexOf('/') + 1).toLowerCase()
  if (name === 'x' || name === '0') return 0
  if (name === 'y' || name === '1') return 1
  if (name === 'z' || name === '2') return 2
  return undefined
}

function rankParent(parent: string): number {
  const rank = parents.indexOf(parent)
  return rank === -1 ? parents.length : rank
}
