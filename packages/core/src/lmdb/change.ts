import type { KeyRange, Rows, Table } from './environment.ts'

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

/** Runs `decide` on tables that note what it reads, and what it would write. */
export function record<T>(
  table: (name: string) => Table,
  decide: (table: (name: string) => Rows) => T,
): { result: T; change: Change } {
  const change: Change = { rowsRead: [], keysRead: [], rows: [] }
  /** What was written so far, by table and key: a decision sees what it has written. */
  const written = new Map<string, Row>()
  const place = (name: string, key: Uint8Array) => `${name} ${Buffer.from(key).toString('latin1')}`

  function recorded(name: string): Rows {
    const rows = table(name)

    function getBinary(key: Buffer): Buffer | undefined {
      const own = written.get(place(name, key))
      if (own) return own.value === null ? undefined : Buffer.from(own.value)
      const value = rows.getBinary(key)
      change.rowsRead.push({ table: name, key, value: value ?? null })
      return value
    }

    function write(key: Buffer, value: Uint8Array | null): void {
      const row = { table: name, key, value }
      written.set(place(name, key), row)
      change.rows.push(row)
    }

    return {
      getBinary,
      doesExist: (key) => getBinary(key) !== undefined,
      // what it has written itself is not in here, which no decision needs
      getKeys(range) {
        const keys = keysOf(rows, range)
        change.keysRead.push({ table: name, range, keys })
        return keys
      },
      put: write,
      remove: (key) => write(key, null),
    }
  }

  return { result: decide(recorded), change }
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
