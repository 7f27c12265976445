import { Readable } from 'node:stream'
import { gunzipSync } from 'node:zlib'
import { createIngest, openMemoryStore } from '@ingest/core'
import { knownFields } from '@ingest/core/internal'
import { parquetMetadata, parquetReadObjects } from 'hyparquet'
import t from 'tap'
import { type ParquetOptions, parquet } from '../src/parquet.ts'

const projectId = 'p'
const parquetAt = Date.UTC(2026, 10, 20, 17, 51, 0, 123)

/** The Parquet file of events, given as JSON texts. */
async function parquetOf(events: readonly string[], options: ParquetOptions = {}): Promise<ArrayBuffer> {
  const embedded = createIngest({ store: openMemoryStore(), now: () => parquetAt })
  const project = embedded.project(projectId)
  for (let at = 0; at < events.length; at += 100) {
    const batch = events.slice(at, at + 100)
    const { accepted } = await project.submitBatch(Buffer.from(`{"events":[${batch.join(',')}]}`))
    if (accepted !== batch.length) throw new Error('some events are invalid')
  }
  const chunks = await Readable.from(parquet(options).encode(project.readEvents())).toArray()
  await embedded.close()
  return new Uint8Array(Buffer.concat(chunks)).buffer
}

async function rowsOf(file: ArrayBuffer): Promise<Record<string, unknown>[]> {
  return parquetReadObjects({ file, compressors: { GZIP: (bytes) => gunzipSync(bytes) } })
}

const nulls = Object.fromEntries(knownFields.map(({ name }) => [name, null]))

t.test('the columns of Parquet are the required fields, the well-known fields and the event', async (t) => {
  const { schema } = parquetMetadata(await parquetOf(['{"projectId":"p","eventId":"e"}']))
  const leaves = schema
    .slice(1)
    .map(({ name, type, converted_type, repetition_type }) => [name, type, converted_type, repetition_type])
  const text = ['BYTE_ARRAY', 'UTF8']
  const time = ['INT64', 'TIMESTAMP_MILLIS']
  t.strictSame(leaves, [
    ['cursor', ...text, 'REQUIRED'],
    ['receivedAt', ...time, 'REQUIRED'],
    ['eventId', ...text, 'REQUIRED'],
    ['projectId', ...text, 'REQUIRED'],
    ['type', ...text, 'OPTIONAL'],
    ['timestamp', ...time, 'OPTIONAL'],
    ['buildId', ...text, 'OPTIONAL'],
    ['placeId', ...text, 'OPTIONAL'],
    ['sessionId', ...text, 'OPTIONAL'],
    ['serverId', ...text, 'OPTIONAL'],
    ['playerId', ...text, 'OPTIONAL'],
    ['event', ...text, 'REQUIRED'],
  ])
})

t.test('unusual values survive Parquet with snappy and with gzip', async (t) => {
  const cases: [string, Record<string, unknown>][] = [
    ['{"projectId":"p","eventId":"bare"}', {}],
    [
      '{ "eventId":"all","projectId":"p",\r\n\t"type":"round.start","timestamp":"2026-11-20T17:51:00.123456+02:00","buildId":"b 1","placeId":"920","sessionId":"","serverId":"s","playerId":"7" }',
      {
        type: 'round.start',
        timestamp: new Date('2026-11-20T15:51:00.123Z'),
        buildId: 'b 1',
        placeId: '920',
        sessionId: '',
        serverId: 's',
        playerId: '7',
      },
    ],
    [
      '{"projectId":"p","eventId":"integers","timestamp":1795197060123,"placeId":9007199254740991,"sessionId":-9007199254740991,"serverId":1e3,"playerId":0,"big":12345678901234567890123,"f":1.0}',
      {
        timestamp: new Date(1795197060123),
        placeId: '9007199254740991',
        sessionId: '-9007199254740991',
        serverId: '1000',
        playerId: '0',
      },
    ],
    ['{"projectId":"p","eventId":"nulls","type":null,"timestamp":null,"buildId":null,"playerId":null}', {}],
    [
      '{"projectId":"p","eventId":"ü 😀 \u2028 \\u00ef","type":"\\ud83d\\ude00","playerId":"日本"}',
      { type: '😀', playerId: '日本' },
    ],
    ['{"projectId":"p","eventId":"twice","type":"a","type":"b","__proto__":{"buildId":"no"}}', { type: 'b' }],
    [
      '{"projectId":"p","eventId":"small letters","timestamp":"2026-11-20t17:51:00z"}',
      { timestamp: new Date('2026-11-20T17:51:00Z') },
    ],
    [
      '{"projectId":"p","eventId":"before 1970","timestamp":"1905-01-01T00:00:00Z"}',
      { timestamp: new Date('1905-01-01T00:00:00Z') },
    ],
    ['{"projectId":"p","eventId":"0","timestamp":0}', { timestamp: new Date(0) }],
    ['{"projectId":"p","eventId":"leap","timestamp":"2016-12-31T23:59:60Z"}', {}],
    ['{"projectId":"p","eventId":"the last","timestamp":253402300799999}', { timestamp: new Date(253402300799999) }],
    ['{"projectId":"p","eventId":"too late","timestamp":253402300800000}', {}],
  ]
  const expected = cases.map(([text, fields]) => ({
    receivedAt: new Date(parquetAt),
    eventId: JSON.parse(text).eventId,
    projectId,
    ...nulls,
    ...fields,
    event: text,
  }))
  for (const gzip of [false, true]) {
    const file = await parquetOf(
      cases.map(([text]) => text),
      { gzip },
    )
    const rows = await rowsOf(file)
    t.strictSame(
      rows.map(({ cursor: _, ...row }) => row),
      expected,
    )
    t.equal(new Set(rows.map(({ cursor }) => cursor)).size, cases.length)
    const codecs = parquetMetadata(file).row_groups.flatMap(({ columns }) =>
      columns.map((column) => column.meta_data?.codec),
    )
    t.strictSame([...new Set(codecs)], [gzip ? 'GZIP' : 'SNAPPY'])
  }
})

t.test('a row group ends at its maximum of rows or bytes', async (t) => {
  const events = Array.from(
    { length: 250 },
    (_, i) => `{"projectId":"p","eventId":"e-${i}","text":"${'x'.repeat(100)}"}`,
  )
  const groupsOf = async (options: ParquetOptions) => {
    const file = await parquetOf(events, options)
    const rows = await rowsOf(file)
    t.ok(rows.length === events.length && rows.every(({ event }, i) => event === events[i]))
    return parquetMetadata(file).row_groups.map(({ num_rows }) => Number(num_rows))
  }
  t.strictSame(await groupsOf({}), [250])
  t.strictSame(await groupsOf({ groupRowsMax: 100 }), [100, 100, 50])
  const bytes = events.slice(0, 80).reduce((sum, event) => sum + event.length, 0)
  t.strictSame((await groupsOf({ groupBytesMax: bytes })).slice(0, 1), [80])
  t.strictSame((await groupsOf({ groupBytesMax: bytes + 1 })).slice(0, 1), [81])
})
