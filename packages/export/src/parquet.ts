import { compress, init } from '@bokuweb/zstd-wasm'
import { IngestError, type StoredEvent } from '@ingest/core'
import { isTimestamp, type JsonObject, knownFields, parsePointer } from '@ingest/core/internal'
import { ByteWriter, ParquetWriter, type SchemaElement } from 'hyparquet-writer'
import type { FileFormat } from './file-format.ts'

/** A member of events with a typed column of its own. */
export interface ParquetColumn {
  name: string
  /** A JSON Pointer (RFC 6901), such as `/properties/score`. */
  pointer: string
  type: ParquetColumnType
}

/**
 * `string` also accepts integers, as digits; `int` has 64 bits, read from numbers within ±(2^53 - 1); `float` has 64
 * bits; `timestamp` accepts RFC 3339 times with a zone and integer milliseconds since 1970.
 */
export type ParquetColumnType = 'string' | 'int' | 'float' | 'boolean' | 'timestamp'

export interface ParquetOptions {
  /** Typed columns. Missing members are null, and so are values that do not fit, which are counted. Default: none. */
  columns?: readonly ParquetColumn[]
  /** Whether the column `event` contains the whole event. Default: true. */
  event?: boolean
  /** Maximum number of rows of a row group. Default: 50,000. */
  groupRowsMax?: number
  /** A row group ends when its events reach this size, in bytes. Default: 6 MiB. */
  groupBytesMax?: number
}

const groupRowsMaxDefault = 50_000
const groupBytesMaxDefault = 6 * 1024 * 1024
/** Level 3, zstd's default, takes longer for files of the same size. */
const zstdLevel = 1

/**
 * Parquet files, compressed with zstd, with one row group in memory at a time. Columns: `cursor`, `receivedAt`,
 * `eventId`, `projectId`, the well-known fields, those of `columns`, and `event` with the bytes that were sent.
 *
 * A missing well-known field is null. Integers are decimal strings; `timestamp` is a time in milliseconds, and null for
 * a leap second or a year after 9999, which Parquet cannot represent.
 *
 * @throws {IngestError} `invalid-argument` for invalid columns
 */
export function parquet({ columns = [], event = true, ...limits }: ParquetOptions = {}): FileFormat {
  checkColumns(columns)
  const all = [...metadataColumns, ...columns.map(toColumn), ...(event ? [eventColumn] : [])]
  const added = [...columns.map(({ name, pointer, type }) => `${name}=${pointer}:${type}`), ...(event ? ['event'] : [])]
  return {
    name: `parquet with the columns ${added.join(' ') || 'of every event'}`,
    extension: 'parquet',
    encode: (events, onMistyped) => encodeParquet(events, { columns: all, onMistyped, ...limits }),
  }
}

interface EncodeOptions extends Omit<ParquetOptions, 'columns' | 'event'> {
  columns: readonly Column[]
  onMistyped: ((column: string) => void) | undefined
}

async function* encodeParquet(
  events: AsyncIterable<StoredEvent>,
  { columns, onMistyped, groupRowsMax = groupRowsMaxDefault, groupBytesMax = groupBytesMaxDefault }: EncodeOptions,
): AsyncGenerator<Buffer, void> {
  await loadZstd()
  const bytes = new ByteWriter()
  const file = new ParquetWriter({
    writer: bytes,
    schema: [{ name: 'events', num_children: columns.length }, ...columns.map(({ element }) => element)],
    codec: 'ZSTD',
    compressors: { ZSTD: (page) => compress(Buffer.from(page.buffer, page.byteOffset, page.byteLength), zstdLevel) },
    createdBy: 'ingest',
  })
  let group = columns.map((): Value[] => [])
  let rows = 0
  let eventBytes = 0

  function flush(): Buffer {
    const chunk = Buffer.from(bytes.getBytes())
    bytes.index = 0
    return chunk
  }

  async function endGroup(): Promise<Buffer> {
    const columnData = columns.map(({ element: { name }, read: _, ...how }, i) => ({
      name,
      data: group[i] ?? [],
      ...how,
    }))
    await file.write({ columnData, rowGroupSize: rows })
    group = columns.map(() => [])
    rows = 0
    eventBytes = 0
    return flush()
  }

  for await (const event of events) {
    const fields = parseFields(event)
    // by index: an iterator would take longer than reading most values
    for (let i = 0; i < columns.length; i++) {
      const { read, element } = columns[i] as Column
      const value = read(event, fields)
      if (value === undefined) onMistyped?.(element.name)
      group[i]?.push(value ?? null)
    }
    rows++
    eventBytes += event.bytes.length
    if (rows === groupRowsMax || eventBytes >= groupBytesMax) yield await endGroup()
  }
  if (rows > 0) yield await endGroup()
  await file.finish()
  yield flush()
}

let zstd: Promise<void> | undefined

function loadZstd(): Promise<void> {
  zstd ??= init()
  return zstd
}

type Value = string | number | bigint | boolean | Buffer | null

interface Column {
  element: SchemaElement
  /** Undefined if the value does not fit. */
  read(event: StoredEvent, fields: JsonObject): Value | undefined
  encoding?: 'PLAIN' | 'DELTA_BINARY_PACKED'
  statistics?: false
}

const text = { type: 'BYTE_ARRAY', converted_type: 'UTF8', logical_type: { type: 'STRING' } } as const
const time = {
  type: 'INT64',
  converted_type: 'TIMESTAMP_MILLIS',
  logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MILLIS' },
} as const
const required = { repetition_type: 'REQUIRED' } as const
const optional = { repetition_type: 'OPTIONAL' } as const
/** A dictionary does not help if all values differ. */
const plain = { encoding: 'PLAIN' } as const
/** Neighbouring times are close to each other. */
const delta = { encoding: 'DELTA_BINARY_PACKED' } as const

const metadataColumns: Column[] = [
  { element: { name: 'cursor', ...text, ...required }, read: ({ cursor }) => cursor, ...plain },
  { element: { name: 'receivedAt', ...time, ...required }, read: ({ receivedAt }) => BigInt(receivedAt), ...delta },
  { element: { name: 'eventId', ...text, ...required }, read: (_, { eventId }) => toText(eventId) ?? '', ...plain },
  { element: { name: 'projectId', ...text, ...required }, read: (_, { projectId }) => toText(projectId) ?? '' },
  ...knownFields.map(({ name, text: kind }): Column => {
    const isTime = kind === 'timestamp'
    const convert = isTime ? toTime : toText
    return {
      element: { name, ...(isTime ? time : text), ...optional },
      read: (_, fields) => convert(fields[name]) ?? null,
      ...(isTime && delta),
    }
  }),
]

const eventColumn: Column = {
  element: { name: 'event', ...text, ...required },
  // a copy: the view would keep a much larger buffer in memory
  read: ({ bytes }) => Buffer.from(bytes),
  ...plain,
  statistics: false,
}

interface ColumnKind {
  element: Pick<SchemaElement, 'type' | 'converted_type' | 'logical_type'>
  /** Undefined if the value does not fit. */
  convert(value: unknown): Value | undefined
}

const kinds: Record<ParquetColumnType, ColumnKind> = {
  string: { element: text, convert: toText },
  int: { element: { type: 'INT64' }, convert: toInt },
  float: { element: { type: 'DOUBLE' }, convert: (value) => (Number.isFinite(value) ? (value as number) : undefined) },
  boolean: { element: { type: 'BOOLEAN' }, convert: (value) => (typeof value === 'boolean' ? value : undefined) },
  timestamp: { element: time, convert: toTime },
}

function toColumn({ name, pointer, type }: ParquetColumn): Column {
  const { element, convert } = kinds[type]
  const tokens = parsePointer(pointer) ?? []
  return {
    element: { name, ...element, ...optional },
    read(_, fields) {
      const value = valueAt(fields, tokens)
      return value === undefined || value === null ? null : convert(value)
    },
  }
}

/** Names of the files' columns and of those that `partition` adds. SQL engines ignore the case of names. */
const takenNames = [...metadataColumns, eventColumn].map(({ element }) => element.name).concat('dt', 'hour')

function checkColumns(columns: readonly ParquetColumn[]): void {
  const taken = new Set(takenNames.map((name) => name.toLowerCase()))
  for (const { name, pointer, type } of columns) {
    const problem = problemOf({ name, pointer, type }, taken)
    if (problem !== undefined) throw new IngestError('invalid-argument', `The column ${name} ${problem}`)
    taken.add(name.toLowerCase())
  }
}

function problemOf({ name, pointer, type }: ParquetColumn, taken: ReadonlySet<string>): string | undefined {
  if (!/^[^\s=]/.test(name)) return 'needs a name.'
  if (taken.has(name.toLowerCase())) return 'exists already: use another name.'
  if (!Object.hasOwn(kinds, type)) return `has an unknown type, ${type}: use one of ${Object.keys(kinds).join(', ')}.`
  if (parsePointer(pointer) === undefined) return `has no JSON Pointer: ${pointer}. Use one such as /properties/score.`
  return undefined
}

function parseFields({ bytes }: StoredEvent): JsonObject {
  return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString())
}

function valueAt(fields: unknown, tokens: readonly string[]): unknown {
  let value = fields
  for (const token of tokens) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, token)) return undefined
    // the length of an array is not a JSON member
    if (Array.isArray(value) && token === 'length') return undefined
    value = (value as JsonObject)[token]
  }
  return value
}

function toText(value: unknown): string | undefined {
  return typeof value === 'string' ? value : Number.isSafeInteger(value) ? String(value) : undefined
}

function toInt(value: unknown): bigint | undefined {
  return Number.isSafeInteger(value) ? BigInt(value as number) : undefined
}

/** RFC 3339 has years of four digits; many readers reject other times. */
const [timeMin, timeMax] = [Date.parse('0000-01-01T00:00:00Z'), Date.UTC(9999, 11, 31, 23, 59, 59, 999)]

function toTime(value: unknown): bigint | undefined {
  const ms = typeof value === 'string' && isTimestamp(value) ? Date.parse(value) : value
  const isTime = Number.isSafeInteger(ms) && (ms as number) >= timeMin && (ms as number) <= timeMax
  return isTime ? BigInt(ms as number) : undefined
}
