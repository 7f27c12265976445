import type { KeyRange, Rows, Table } from '../environment/environment.ts'

/** A row of a table; null where there is none. */
export interface Row {
  table: string
  key: Uint8Array
  value: Uint8Array | null
}

/** The keys that a table has in a range. */
export interface KeysRead {
  table: string
  range: KeyRange
  keys: Uint8Array[]
}

/**
 * A decision, and what it stands on: if all that was read is still so, the rows are written, else nothing is (Kung and
 * Robinson: "On Optimistic Methods for Concurrency Control", 1981).
 */
export interface Change {
  rowsRead: Row[]
  keysRead: KeysRead[]
  rows: Row[]
}

/**
 * Runs `decide` on tables that note what it reads, and what it would write. `rowCount` gives how many rows it has read
 * and written so far.
 */
export function record<T>(
  table: (name: string) => Table,
  decide: (table: (name: string) => Rows, rowCount: () => number) => T,
): { result: T; change: Change } {
  const change: Change = { rowsRead: [], keysRead: [], rows: [] }
  /** What was written so far, by table, in the order of keys: a decision sees what it has written. */
  const written = new Map<string, Row[]>()

  function recorded(name: string): Rows {
    const rows = table(name)
    const own = written.get(name) ?? []
    written.set(name, own)

    function ownRow(key: Uint8Array): Row | undefined {
      const row = own[placeOf(own, key)]
      return row && isEqual(row.key, key) ? row : undefined
    }

    function getBinary(key: Buffer): Buffer | undefined {
      const row = ownRow(key)
      if (row) return row.value === null ? undefined : Buffer.from(row.value)
      const value = rows.getBinary(key)
      change.rowsRead.push({ table: name, key, value: value ?? null })
      return value
    }

    function getKeys(range: KeyRange): Buffer[] {
      const { limit = Number.POSITIVE_INFINITY } = range
      const mine = ownIn(range)
      const put = mine.filter(({ value }) => value !== null).map(({ key }) => key)
      // so many of those that are there may be gone by now
      const gone = mine.length - put.length
      const wider = limit === Number.POSITIVE_INFINITY || gone === 0 ? range : { ...range, limit: limit + gone }
      const keys = keysOf(rows, wider)
      change.keysRead.push({ table: name, range: wider, keys })
      if (mine.length === 0) return keys
      const others = keys.filter((key) => !ownRow(key))
      const all = [...others, ...put].sort(range.reverse ? (a, b) => Buffer.compare(b, a) : Buffer.compare)
      return all.slice(0, limit).map((key) => Buffer.from(key))
    }

    /** A range that is read backwards has no bounds. */
    function ownIn({ start, end, reverse }: KeyRange): Row[] {
      if (reverse) return own
      return own.slice(start ? placeOf(own, start) : 0, end ? placeOf(own, end) : own.length)
    }

    function write(key: Buffer, value: Buffer | null): void {
      own.splice(placeOf(own, key), ownRow(key) ? 1 : 0, { table: name, key, value })
    }

    return {
      getBinary,
      doesExist: (key) => getBinary(key) !== undefined,
      getKeys,
      put: write,
      remove: (key) => write(key, null),
    }
  }

  function rowCount(): number {
    return [...written.values()].reduce((count, rows) => count + rows.length, change.rowsRead.length)
  }

  const result = decide(recorded, rowCount)
  return { result, change: { ...change, rows: [...written.values()].flat() } }
}

/** Where `key` stands among rows that are in the order of their keys, or would stand. */
function placeOf(rows: readonly Row[], key: Uint8Array): number {
  let [low, high] = [0, rows.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (Buffer.compare((rows[middle] as Row).key, key) < 0) low = middle + 1
    else high = middle
  }
  return low
}

/** Opens the tables of a change, which its transaction must not. */
export function openTables(table: (name: string) => Table, { rowsRead, keysRead, rows }: Change): void {
  for (const { table: name } of [...rowsRead, ...keysRead, ...rows]) table(name)
}

/** Makes the change if what it stands on is still so, and says whether it did. Only inside a write transaction. */
export function change(table: (name: string) => Table, { rowsRead, keysRead, rows }: Change): boolean {
  const isUntouched =
    rowsRead.every(({ table: name, key, value }) => isEqual(table(name).getBinary(Buffer.from(key)) ?? null, value)) &&
    keysRead.every(({ table: name, range, keys }) => {
      const now = keysOf(table(name), range)
      return now.length === keys.length && now.every((key, i) => isEqual(key, keys[i] as Uint8Array))
    })
  if (!isUntouched) return false
  for (const { table: name, key, value } of rows) {
    if (value === null) table(name).remove(Buffer.from(key))
    else table(name).put(Buffer.from(key), Buffer.from(value))
  }
  return true
}

function keysOf(table: Table, { start, end, limit, reverse }: KeyRange): Buffer[] {
  const range = {
    ...(start && { start: Buffer.from(start) }),
    ...(end && { end: Buffer.from(end) }),
    ...(limit !== undefined && { limit }),
    ...(reverse !== undefined && { reverse }),
  }
  return [...table.getKeys(range)]
}

function isEqual(a: Uint8Array | null, b: Uint8Array | null): boolean {
  if (a === null || b === null) return a === b
  return Buffer.compare(a, b) === 0
}
