import type { ActivityRange, ActivityRow, ActivitySpan, ActivityToPut } from '@ingest/core'
import type { Rows } from '../environment/environment.ts'
import type { TableName } from '../environment/schema.ts'

/**
 * The counts of each process, as rows. A key is the project's id, a zero byte, then the span, the time and the writer.
 * It has the id instead of a number, because only a project with stored data has a number.
 */
export interface ActivityTable {
  /** The first rows of a range, at most `limit`, or those after the row `after`. */
  read(projectId: string, range: ActivityRange, limit: number, after?: ActivityRow): ActivityRow[]
  /**
   * The keys of rows of any project that began before a time, from `from` on, at most `limit`. `next` is where to
   * continue; undefined at the end of the table.
   */
  expired(before: number, from: Uint8Array, limit: number): { keys: Buffer[]; next?: Buffer }
  /** Only inside a write transaction. */
  put(row: ActivityToPut): void
  /** Returns whether there was a row. Only inside a write transaction. */
  remove(key: Buffer): boolean
}

/** The commands of the writer for activity. */
export interface ActivityCommands {
  putActivity: { command: { type: 'putActivity'; rows: readonly ActivityToPut[] }; result: true }
  /** Removes rows by their keys; returns how many of them existed. */
  removeActivity: { command: { type: 'removeActivity'; keys: readonly Uint8Array[] }; result: number }
}

const spans: Readonly<Record<ActivitySpan, number>> = { minute: 0, hour: 1, 'rejected-minute': 2, 'rejected-hour': 3 }
const spanNumbers = new Set(Object.values(spans))
const timeBytes = 6
const writerBytes = 8
/** The length of a key after the id and the zero byte. */
const suffixBytes = 1 + timeBytes + writerBytes
/** Maximum number of projects and spans that one call searches for expired rows. */
const seeksMax = 1024

export function openActivity(table: (name: TableName) => Rows): ActivityTable {
  const entries = table('activity')

  function firstKey(start: Uint8Array): Buffer | undefined {
    const [first] = entries.getKeys({ start, limit: 1 })
    return first
  }

  return {
    read(projectId, { span, from, to }, limit, after) {
      const start = after ? behind(keyOf({ projectId, span, ...after })) : keyAt(projectId, span, from)
      const end = keyAt(projectId, span, Math.max(from, to))
      const rows: ActivityRow[] = []
      for (const key of entries.getKeys({ start, end, limit })) {
        rows.push({ ...partsOf(key), body: entries.getBinary(key)?.toString() ?? '' })
      }
      return rows
    },

    expired(before, from, limit) {
      const keys: Buffer[] = []
      let key = firstKey(from)
      for (let seeks = 0; key; seeks++) {
        if (seeks === seeksMax || keys.length >= limit) return { keys, next: key }
        const group = groupOf(key)
        const end = group && Buffer.concat([group, encodeTime(before)])
        if (end) keys.push(...entries.getKeys({ start: key, end, limit: limit - keys.length }))
        if (keys.length >= limit) key = firstKey(behind(keys.at(-1) as Buffer))
        else key = firstKey(group ? behindGroup(group) : behind(key))
      }
      return { keys }
    },

    put: (row) => void entries.put(keyOf(row), Buffer.from(row.body)),

    remove(key) {
      const exists = entries.doesExist(key)
      if (exists) entries.remove(key)
      return exists
    },
  }
}

/** The key before all rows of a span that begin at a time or later. */
function keyAt(projectId: string, span: ActivitySpan, at: number): Buffer {
  return Buffer.concat([Buffer.from(`${projectId}\0`), Buffer.of(spans[span]), encodeTime(at)])
}

function keyOf({ projectId, span, at, writer }: Omit<ActivityToPut, 'body'>): Buffer {
  return Buffer.concat([keyAt(projectId, span, at), Buffer.from(writer, 'hex')])
}

function partsOf(key: Buffer): Omit<ActivityRow, 'body'> {
  const timeAt = key.length - suffixBytes + 1
  return { at: key.readUIntBE(timeAt, timeBytes), writer: key.toString('hex', timeAt + timeBytes) }
}

/** No row begins between the time and the encoded one. */
function encodeTime(at: number): Buffer {
  const bytes = Buffer.allocUnsafe(timeBytes)
  bytes.writeUIntBE(Math.min(Math.max(Math.ceil(at), 0), 2 ** (8 * timeBytes) - 1), 0, timeBytes)
  return bytes
}

/** The key without its time and writer; undefined for a damaged key. */
function groupOf(key: Buffer): Buffer | undefined {
  const span = key.at(-suffixBytes)
  return span !== undefined && spanNumbers.has(span) ? key.subarray(0, 1 - suffixBytes) : undefined
}

/** The first key after this one. */
function behind(key: Buffer): Buffer {
  return Buffer.concat([key, Buffer.of(0)])
}

/** The first key after those that begin with this one, whose last byte is that of a span. */
function behindGroup(group: Buffer): Buffer {
  const key = Buffer.from(group)
  key[key.length - 1] = (key.at(-1) as number) + 1
  return key
}
