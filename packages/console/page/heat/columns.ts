import { formatPointer } from '../json-pointer.ts'

/** The numbers of one member; NaN for an event without a coordinate in that member. */
export interface Column {
  pointer: string
  values: Float64Array
  /** Number of events with a number in this member. */
  count: number
}

/** The numbers in events, by JSON Pointer. Their number is limited: see below. */
export interface Columns {
  readonly rows: number
  add(event: unknown): void
  get(pointer: string): Column | undefined
  list(): Column[]
}

// members named like coordinates are not displaced by others
const coordinateColumnsMax = 24
const otherColumnsMax = 16
// limits a tree that would otherwise grow with each event whose member names are data, such as player ids
const nodesMax = 4_000
const depthMax = 5
const arrayItemsMax = 3

const coordinateName = /^([xyz012]|lat|lng|lon|latitude|longitude)$/i
const identities = new Set(['timestamp', 'placeId', 'sessionId', 'serverId', 'playerId'])

/** Larger numbers are not coordinates: their squares, sums and 32-bit floats would not be finite. */
const coordinateMax = 1e18

/** Whether a value can be a coordinate. Excludes Infinity, to which valid JSON such as 1e999 is parsed. */
export function isCoordinate(value: unknown): value is number {
  return typeof value === 'number' && Math.abs(value) <= coordinateMax
}

interface Node {
  tokens: string[]
  children: Map<string, Node>
  column?: Column | undefined
}

export function createColumns(): Columns {
  const columns = new Map<string, Column>()
  const members = createMembers(create)
  let rows = 0

  function create(pointer: string): Column {
    const column = { pointer, values: new Float64Array(1_024).fill(Number.NaN), count: 0 }
    columns.set(pointer, column)
    return column
  }

  return {
    get rows() {
      return rows
    },
    add(event) {
      members.visit(event, (column, value) => set(column, rows, value))
      rows++
    },
    get(pointer) {
      const column = columns.get(pointer)
      if (column) lengthen(column, rows)
      return column
    },
    list: () => [...columns.values()],
  }
}

/** The members of all events as a tree, whose size is limited. */
function createMembers(create: (pointer: string) => Column) {
  const root: Node = { tokens: [], children: new Map() }
  let nodes = 0
  let coordinateColumns = 0
  let otherColumns = 0

  function nodeOf(parent: Node, token: string): Node | undefined {
    const known = parent.children.get(token)
    if (known || nodes >= nodesMax) return known
    nodes++
    const node = { tokens: [...parent.tokens, token], children: new Map() }
    parent.children.set(token, node)
    return node
  }

  function createColumn(tokens: readonly string[]): Column | undefined {
    const hasCoordinateName = coordinateName.test(tokens.at(-1) ?? '')
    const isFull = hasCoordinateName ? coordinateColumns >= coordinateColumnsMax : otherColumns >= otherColumnsMax
    const column = isFull ? undefined : create(formatPointer(tokens))
    if (column && hasCoordinateName) coordinateColumns++
    else if (column) otherColumns++
    return column
  }

  function visit(parent: Node, value: unknown, onNumber: (column: Column, value: number) => void): void {
    if (typeof value !== 'object' || value === null || parent.tokens.length >= depthMax) return
    // longer arrays are lists, not coordinates
    if (Array.isArray(value) && value.length > arrayItemsMax) return
    for (const [name, member] of Object.entries(value)) {
      if (parent === root && identities.has(name)) continue
      if (typeof member !== 'number' && (typeof member !== 'object' || member === null)) continue
      const node = nodeOf(parent, name)
      if (node && typeof member === 'number') {
        node.column ??= createColumn(node.tokens)
        if (node.column) onNumber(node.column, member)
      } else if (node) visit(node, member, onNumber)
    }
  }

  return {
    visit: (event: unknown, onNumber: (column: Column, value: number) => void) => visit(root, event, onNumber),
  }
}

function set(column: Column, row: number, value: number): void {
  if (!isCoordinate(value)) return
  lengthen(column, row + 1)
  column.values[row] = value
  column.count++
}

function lengthen(column: Column, length: number): void {
  const before = column.values
  column.values = grow(before, length)
  if (column.values !== before) column.values.fill(Number.NaN, before.length)
}

/** The values in an array of at least `length`; if it must grow, at least twice as long as before. New values are 0. */
export function grow<Values extends Float32Array | Float64Array | Uint8Array | Uint16Array | Uint32Array>(
  values: Values,
  length: number,
): Values {
  if (length <= values.length) return values
  const larger = new (values.constructor as new (length: number) => Values)(Math.max(length, 2 * values.length))
  larger.set(values)
  return larger
}
