import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { createIngest } from '@ingest/core'
import { knownFields } from '@ingest/core/internal'
import { openLmdbStore } from '@ingest/lmdb'
import { parquetMetadata, parquetReadObjects } from 'hyparquet'
import t, { type Test } from 'tap'
import { spawnIngest } from '../ingest-process.ts'

// By the built command: the resolver of the test runner does not find the parts of hyparquet that its writer imports.

const projectId = 'p'
const receivedAt = Date.UTC(2026, 10, 20, 17, 51, 0, 123)

/** The Parquet file of these events, of which each is text of JSON. */
async function exported(t: Test, batches: readonly (readonly string[])[], args: string[] = []): Promise<ArrayBuffer> {
  const path = t.testdir({})
  const store = createIngest({ store: await openLmdbStore(join(path, 'data')), now: () => receivedAt })
  for (const events of batches) {
    const { accepted } = await store.project(projectId).submitBatch(Buffer.from(`{"events":[${events.join(',')}]}`))
    if (accepted !== events.length) throw new Error('not all are events')
  }
  await store.close()
  const output = join(path, 'files')
  const target = ['--data', join(path, 'data'), '--project', projectId]
  t.match(await spawnIngest(['export', ...target, '--output', output, '--format', 'parquet', ...args]), {
    code: 0,
    stderr: '',
  })
  const [file = '', ...others] = readdirSync(output).filter((name) => name.endsWith('.parquet'))
  t.strictSame(others, [])
  const bytes = readFileSync(join(output, file))
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer
}

async function rowsOf(file: ArrayBuffer): Promise<Record<string, unknown>[]> {
  return parquetReadObjects({ file, compressors: { GZIP: (bytes) => gunzipSync(bytes) } })
}

const nulls = Object.fromEntries(knownFields.map(({ name }) => [name, null]))

t.test('the columns are what every event has, the well-known fields, and the event', async (t) => {
  const { schema } = parquetMetadata(await exported(t, [['{"projectId":"p","eventId":"e"}']]))
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

t.test('odd values come back, whatever compresses them', async (t) => {
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
    receivedAt: new Date(receivedAt),
    eventId: JSON.parse(text).eventId,
    projectId,
    ...nulls,
    ...fields,
    event: text,
  }))
  for (const gzip of [false, true]) {
    const file = await exported(t, [cases.map(([text]) => text)], gzip ? ['--gzip'] : [])
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

t.test('many events, and large ones, are several row groups', async (t) => {
  const batchOf = (size: number, filler: string) => (_: unknown, batch: number) =>
    Array.from({ length: size }, (_, i) => `{"projectId":"p","eventId":"e-${batch}-${i}","text":"${filler}"}`)
  const many = Array.from({ length: 501 }, batchOf(100, ''))
  const large = Array.from({ length: 100 }, batchOf(1, 'x'.repeat(250_000)))
  for (const [batches, groups] of [[many, [50_000, 100]] as const, [large, [68, 32]] as const]) {
    const file = await exported(t, batches)
    t.strictSame(
      parquetMetadata(file).row_groups.map(({ num_rows }) => Number(num_rows)),
      groups,
    )
    const rows = await rowsOf(file)
    const sent = batches.flat()
    t.equal(rows.length, sent.length)
    t.ok(rows.every(({ event }, i) => event === sent[i]))
  }
})
