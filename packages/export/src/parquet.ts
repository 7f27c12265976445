import { gzipSync } from 'node:zlib'
import type { StoredEvent } from '@ingest/core'
import { type JsonObject, knownFields } from '@ingest/core/internal'
import { ByteWriter, ParquetWriter, type SchemaElement } from 'hyparquet-writer'
import type { FileFormat } from './file-format.ts'

export interface ParquetOptions {
  /** Compresses pages with gzip instead of snappy, which is faster and larger. Default: false. */
  gzip?: boolean
  /** Maximum rows of a row group. Default: 50,000. */
  groupRowsMax?: number
  /** A row group ends when its events reach this size. Default: 16 MiB. */
  groupBytesMax?: number
}

const groupRowsMaxDefault = 50_000
const groupBytesMaxDefault = 16 * 1024 * 1024

/**
 * Parquet files, with one row group in memory at a time. Columns: `cursor`, `receivedAt`, `eventId`, `projectId`, the
 * well-known fields, and `event`, the bytes of the event as it was sent.
 *
 * A missing well-known field is null. Integers are decimal strings; `timestamp` is a time in milliseconds, and null for a
 * leap second or a year after 9999, which Parquet cannot represent.
 */
export function parquet(options: ParquetOptions = {}): FileFormat {
  return { extension: 'parquet', encode: (events) => encodeParquet(events, options) }
}

async function* encodeParquet(
  events: AsyncIterable<StoredEvent>,
  { gzip = false, groupRowsMax = groupRowsMaxDefault, groupBytesMax = groupBytesMaxDefault }: ParquetOptions,
): AsyncGenerator<Buffer, void> {
  const bytes = new ByteWriter()
  const file = new ParquetWriter({
    writer: bytes,
    schema: [{ name: 'events', num_children: columns.length }, ...columns.map(({ element }) => element)],
    codec: gzip ? 'GZIP' : 'SNAPPY',
    compressors: { GZIP: gzipSync },
    createdBy: 'ingest',
  })
  let group = columns.map((): unknown[] => [])
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
    for (const [i, { read }] of columns.entries()) group[i]?.push(read(event, fields))
    rows++
    eventBytes += event.bytes.length
    if (rows === groupRowsMax || eventBytes >= groupBytesMax) yield await endGroup()
  }
  if (rows > 0) yield await endGroup()
  await file.finish()
  yield flush()
}

interface Column {
  element: SchemaElement
  read(event: StoredEvent, fields: JsonObject): string | bigint | Buffer | null
  encoding?: 'PLAIN'
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

const columns: Column[] = [
  { element: { name: 'cursor', ...text, ...required }, read: ({ cursor }) => cursor },
  { element: { name: 'receivedAt', ...time, ...required }, read: ({ receivedAt }) => BigInt(receivedAt) },
  ...['eventId', 'projectId'].map(
    (name): Column => ({
      element: { name, ...text, ...required },
      read: (_, fields) => toText(fields[name]) ?? '',
    }),
  ),
  ...knownFields.map(({ name, text: kind }): Column => {
    const isTime = kind === 'timestamp'
    const convert = isTime ? toTime : toText
    return {
      element: { name, ...(isTime ? time : text), ...optional },
      read: (_, fields) => convert(fields[name]),
    }
  }),
  {
    element: { name: 'event', ...text, ...required },
    // a copy: the view would keep a much larger buffer in memory
    read: ({ bytes }) => Buffer.from(bytes),
    // all values differ, so neither a dictionary nor statistics help
    encoding: 'PLAIN',
    statistics: false,
  },
]

function parseFields({ bytes }: StoredEvent): JsonObject {
  return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString())
}

function toText(value: unknown): string | null {
  return typeof value === 'string' ? value : Number.isSafeInteger(value) ? String(value) : null
}

/** RFC 3339 has four-digit years; many readers reject later times. */
const timeMax = Date.UTC(9999, 11, 31, 23, 59, 59, 999)

function toTime(value: unknown): bigint | null {
  const ms = typeof value === 'string' ? Date.parse(value) : value
  return Number.isSafeInteger(ms) && (ms as number) <= timeMax ? BigInt(ms as number) : null
}
