import { gzipSync } from 'node:zlib'
import { knownFields, type StoredEvent } from '@ingest/core'
import type { JsonObject } from '@ingest/core/internal'
import { ByteWriter, ParquetWriter, type SchemaElement } from 'hyparquet-writer'

export interface ParquetOptions {
  /** Whether pages are compressed by gzip, and not by snappy, which is faster and larger. */
  gzip: boolean
}

/** A row group is what is in memory at a time: it ends with so many rows, or so many bytes of events. */
const rowsMax = 50_000
const eventBytesMax = 16 * 1024 * 1024

/**
 * A Parquet file, a row group at a time: the columns `cursor`, `receivedAt`, `eventId` and `projectId`, the well-known
 * fields of an event, and `event`, the whole event as it was sent, byte for byte.
 *
 * A well-known field that an event does not have, or has as null, is null. An integer is its decimal string, but for
 * `timestamp`, which is a time to the millisecond; it is null for what a column of times cannot hold: a leap second, and
 * a year after 9999.
 */
export async function* encodeParquet(
  events: AsyncIterable<StoredEvent>,
  { gzip }: ParquetOptions,
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

  function take(): Buffer {
    const piece = Buffer.from(bytes.getBytes())
    bytes.index = 0
    return piece
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
    return take()
  }

  for await (const event of events) {
    const fields = parseFields(event)
    for (const [i, { read }] of columns.entries()) group[i]?.push(read(event, fields))
    rows++
    eventBytes += event.bytes.length
    if (rows === rowsMax || eventBytes >= eventBytesMax) yield await endGroup()
  }
  if (rows > 0) yield await endGroup()
  await file.finish()
  yield take()
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
    // a copy, as what it is cut from may be much larger
    read: ({ bytes }) => Buffer.from(bytes),
    // no two are the same, and the least of them says nothing
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

/** RFC 3339 has four digits for the year; what is later is beyond what many a reader takes. */
const timeMax = Date.UTC(9999, 11, 31, 23, 59, 59, 999)

function toTime(value: unknown): bigint | null {
  const ms = typeof value === 'string' ? Date.parse(value) : value
  return Number.isSafeInteger(ms) && (ms as number) <= timeMax ? BigInt(ms as number) : null
}
