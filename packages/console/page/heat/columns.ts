import { formatPointer, parsePointer, resolvePointer } from '../json-pointer.ts'

/** The values that one member has in each event; NaN where an event lacks it or has no coordinate there. */
export interface Column {
  pointer: string
  values: Float64Array
  /** Events that have a number there. */
  count: number
}

/** The numbers of events, by JSON Pointer. Bounded: see the limits below. */
export interface Columns {
  readonly rows: number
  add(event: unknown): void
  get(pointer: string): Column | undefined
  list(): Column[]
}

// members named like coordinates are not crowded out by others
const coordinateColumnsMax = 24
const otherColumnsMax = 16
// events whose member names are data, such as ids of players, would make the tree grow with each of them
const nodesMax = 4_000
const depthMax = 5
const arrayItemsMax = 3

const coordinateName = /^([xyz012]|lat|lng|lon|latitude|longitude)$/i
const identities = new Set(['timestamp', 'placeId', 'sessionId', 'serverId', 'playerId'])

/** What lies beyond is no place in a map, and its squares, sums and 32-bit floats would not be finite. */
const coordinateMax = 1e18

/** Whether a value can be a coordinate: not Infinity, as which 1e999, valid JSON, is parsed. */
export function isCoordinate(value: unknown): value is number {
  return typeof value === 'number' && Math.abs(value) <= coordinateMax
}

interface Node {
  tokens: string[]
  children: Map<string, Node>
  column?: Column | undefined
}

/** Keeps the pointers in `wanted` beside the limits. */
export function createColumns(wanted: readonly string[] = []): Columns {
  const root: Node = { tokens: [], children: new Map() }
  const columns = new Map<string, Column>()
  const fixed = wanted.map((pointer) => ({ tokens: parsePointer(pointer) ?? [], column: create(pointer) }))
  let rows = 0
  let nodes = 0
  let coordinateColumns = 0
  let otherColumns = 0

  function create(pointer: string): Column {
    const column = { pointer, values: new Float64Array(1_024).fill(Number.NaN), count: 0 }
    columns.set(pointer, column)
    return column
  }

  function nodeOf(parent: Node, token: string): Node | undefined {
    const known = parent.children.get(token)
    if (known || nodes >= nodesMax) return known
    nodes++
    const node = { tokens: [...parent.tokens, token], children: new Map() }
    parent.children.set(token, node)
    return node
  }

  function columnOf(node: Node): Column | undefined {
    if (node.column) return node.column
    const pointer = formatPointer(node.tokens)
    // wanted pointers are resolved by themselves
    if (columns.has(pointer)) return undefined
    const hasCoordinateName = coordinateName.test(node.tokens.at(-1) ?? '')
    if (hasCoordinateName ? coordinateColumns >= coordinateColumnsMax : otherColumns >= otherColumnsMax)
      return undefined
    if (hasCoordinateName) coordinateColumns++
    else otherColumns++
    node.column = create(pointer)
    return node.column
  }

  function walk(parent: Node, token: string, value: unknown): void {
    const isNumber = typeof value === 'number'
    if (!isNumber && (typeof value !== 'object' || value === null)) return
    const node = nodeOf(parent, token)
    if (!node) return
    if (isNumber) {
      const column = columnOf(node)
      if (column) set(column, rows, value)
    } else if (node.tokens.length < depthMax) walkMembers(node, value)
  }

  function walkMembers(node: Node, value: object): void {
    if (Array.isArray(value)) {
      // longer arrays are lists, not coordinates
      if (value.length <= arrayItemsMax) for (const [i, item] of value.entries()) walk(node, String(i), item)
      return
    }
    for (const name of Object.keys(value)) {
      if (node === root && identities.has(name)) continue
      walk(node, name, (value as Record<string, unknown>)[name])
    }
  }

  return {
    get rows() {
      return rows
    },
    add(event) {
      if (typeof event === 'object' && event !== null) walkMembers(root, event)
      for (const { tokens, column } of fixed) {
        const value = resolvePointer(event, tokens)
        if (typeof value === 'number') set(column, rows, value)
      }
      rows++
    },
    get(pointer) {
      const column = columns.get(pointer)
      if (column && column.values.length < rows) column.values = grown(column.values, rows)
      return column
    },
    list: () => [...columns.values()],
  }
}

function set(column: Column, row: number, value: number): void {
  if (!isCoordinate(value)) return
  if (row >= column.values.length) column.values = grown(column.values, row + 1)
  column.values[row] = value
  column.count++
}

function grown(values: Float64Array, length: number): Float64Array<ArrayBuffer> {
  const larger = new Float64Array(Math.max(length, values.length * 2)).fill(Number.NaN, values.length)
  larger.set(values)
  return larger
}
