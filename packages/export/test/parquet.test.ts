import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { decompress } from '@bokuweb/zstd-wasm'
import { createIngest, openMemoryStore } from '@ingest/core'
import { knownFields } from '@ingest/core/internal'
import { parquetMetadata, parquetReadObjects } from 'hyparquet'
import t, { type Test } from 'tap'
import { type ParquetColumn, type ParquetOptions, parquet } from '../src/parquet.ts'

const duckdb = await import('@duckdb/node-api').catch(() => undefined)
const noDuckDb = duckdb ? false : 'DuckDB has no binary for this platform'

const projectId = 'p'
const parquetAt = Date.UTC(2026, 10, 20, 17, 51, 0, 123)

/** The Parquet file of events, given as JSON texts, and how many values of each column did not fit. */
async function encode(events: readonly string[], options: ParquetOptions = {}) {
  const embedded = createIngest({ store: openMemoryStore(), now: () => parquetAt })
  const project = embedded.project(projectId)
  for (let at = 0; at < events.length; at += 100) {
    const batch = events.slice(at, at + 100)
    const { accepted } = await project.submitBatch(Buffer.from(`{"events":[${batch.join(',')}]}`))
    if (accepted !== batch.length) throw new Error('some events are invalid')
  }
  const mistyped: Record<string, number> = {}
  const count = (column: string) => {
    mistyped[column] = (mistyped[column] ?? 0) + 1
  }
  const chunks = await Readable.from(parquet(options).encode(project.readEvents(), count)).toArray()
  await embedded.close()
  return { file: new Uint8Array(Buffer.concat(chunks)).buffer, mistyped }
}

async function parquetOf(events: readonly string[], options: ParquetOptions = {}): Promise<ArrayBuffer> {
  return (await encode(events, options)).file
}

type Rows = Record<string, unknown>[]

async function rowsOf(file: ArrayBuffer): Promise<Rows> {
  return parquetReadObjects({ file, compressors: { ZSTD: (bytes) => decompress(bytes) } })
}

async function rowsByDuckDb(t: Test, file: ArrayBuffer): Promise<Rows> {
  const path = join(t.testdir({}), 'file.parquet')
  writeFileSync(path, new Uint8Array(file))
  const database = await duckdb?.DuckDBInstance.create(':memory:')
  const connection = await database?.connect()
  const read = await connection?.runAndReadAll(`SELECT * FROM '${path}'`)
  const rows = read?.getRowObjectsJS() ?? []
  connection?.closeSync()
  database?.closeSync()
  return rows
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

t.test('unusual values are kept', async (t) => {
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
  const file = await parquetOf(cases.map(([text]) => text))
  const codecs = parquetMetadata(file).row_groups.flatMap(({ columns }) =>
    columns.map((column) => column.meta_data?.codec),
  )
  t.strictSame([...new Set(codecs)], ['ZSTD'])
  const rows = await rowsOf(file)
  t.strictSame(
    rows.map(({ cursor: _, ...row }) => row),
    expected,
  )
  t.equal(new Set(rows.map(({ cursor }) => cursor)).size, cases.length)
  if (!noDuckDb) t.strictSame(await rowsByDuckDb(t, file), rows)
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

/** Values as JSON texts, and their values in a column of each type; undefined if a value does not fit. */
const values: Record<ParquetColumn['type'], [json: string, value: unknown][]> = {
  string: [
    ['"a"', 'a'],
    ['""', ''],
    ['"\\ud83d\\ude00 日本"', '😀 日本'],
    ['-7', '-7'],
    ['1.5', undefined],
    ['true', undefined],
    ['{}', undefined],
    ['["a"]', undefined],
  ],
  int: [
    ['0', 0n],
    ['-9007199254740991', -9007199254740991n],
    ['9007199254740991', 9007199254740991n],
    ['1e3', 1000n],
    ['-0', 0n],
    ['9007199254740992', undefined],
    ['1.5', undefined],
    ['"1"', undefined],
    ['false', undefined],
  ],
  float: [
    ['1.5', 1.5],
    ['-1e308', -1e308],
    ['3', 3],
    ['1e400', undefined],
    ['"1.5"', undefined],
    ['[1.5]', undefined],
  ],
  boolean: [
    ['true', true],
    ['false', false],
    ['0', undefined],
    ['"true"', undefined],
  ],
  timestamp: [
    ['"2026-11-20T17:51:00.123456+02:00"', new Date('2026-11-20T15:51:00.123Z')],
    ['"0000-01-01T00:00:00Z"', new Date('0000-01-01T00:00:00Z')],
    ['1795197060123', new Date(1795197060123)],
    ['-1', new Date(-1)],
    ['253402300799999', new Date(253402300799999)],
    ['253402300800000', undefined],
    ['"2016-12-31T23:59:60Z"', undefined],
    ['"2026-02-30T00:00:00Z"', undefined],
    ['"yesterday"', undefined],
    ['"1795197060123"', undefined],
    ['1.5', undefined],
  ],
}
const types = Object.keys(values) as ParquetColumn['type'][]

t.test('members become typed columns: null where they are missing or of another type, which is counted', async (t) => {
  const columns = types.map((type): ParquetColumn => ({ name: `a ${type}`, pointer: `/a~1b/1/${type}`, type }))
  const expected: Rows = []
  const expectedMistyped = Object.fromEntries(columns.map(({ name }) => [name, 0]))
  // each value follows each other one, in several row groups
  const events = Array.from({ length: 500 }, (_, i) => {
    const row: Record<string, unknown> = { eventId: `e-${i}` }
    const members = types.flatMap((type, at) => {
      const [json, value] = values[type][(i + (i >> (at + 2))) % values[type].length] ?? ['', undefined]
      const absent = i % 7 === 0 ? 'missing' : i % 11 === 0 ? 'null' : undefined
      row[`a ${type}`] = absent || value === undefined ? null : value
      if (!absent && value === undefined) expectedMistyped[`a ${type}`] = (expectedMistyped[`a ${type}`] ?? 0) + 1
      return absent === 'missing' ? [] : [`"${type}":${absent ?? json}`]
    })
    expected.push(row)
    return `{"projectId":"p","eventId":"e-${i}","a/b":[0,{${members.join(',')}}]}`
  })
  const { file, mistyped } = await encode(events, { columns, groupRowsMax: 100 })
  const rows = await rowsOf(file)
  t.strictSame(
    rows.map((row) =>
      Object.fromEntries(['eventId', ...columns.map(({ name }) => name)].map((name) => [name, row[name]])),
    ),
    expected,
  )
  t.strictSame(mistyped, expectedMistyped)
  const { schema } = parquetMetadata(file)
  t.strictSame(
    schema.slice(-6, -1).map(({ name, type, repetition_type }) => [name, type, repetition_type]),
    [
      ['a string', 'BYTE_ARRAY', 'OPTIONAL'],
      ['a int', 'INT64', 'OPTIONAL'],
      ['a float', 'DOUBLE', 'OPTIONAL'],
      ['a boolean', 'BOOLEAN', 'OPTIONAL'],
      ['a timestamp', 'INT64', 'OPTIONAL'],
    ],
  )
  if (!noDuckDb) t.strictSame(await rowsByDuckDb(t, file), rows)
})

t.test('a column without any value is all null', async (t) => {
  const columns = types.map((type): ParquetColumn => ({ name: `the ${type}`, pointer: `/${type}`, type }))
  const file = await parquetOf(['{"projectId":"p","eventId":"a"}', '{"projectId":"p","eventId":"b","list":[]}'], {
    columns: [...columns, { name: 'length', pointer: '/list/length', type: 'int' }],
    event: false,
  })
  const rows = await rowsOf(file)
  for (const row of rows) for (const { name } of columns) t.equal(row[name], null)
  t.strictSame(
    rows.map(({ length }) => length),
    [null, null],
    'a length is no member',
  )
  t.notOk(rows.some((row) => 'event' in row))
  if (!noDuckDb) t.strictSame(await rowsByDuckDb(t, file), rows)
})

t.test('DuckDB reads it', { skip: noDuckDb }, async (t) => {
  const file = await parquetOf(['{"projectId":"p","eventId":"a"}'])
  t.match(await rowsByDuckDb(t, file), [{ eventId: 'a' }])
})

t.test('invalid columns are refused', async (t) => {
  const column: ParquetColumn = { name: 'score', pointer: '/score', type: 'int' }
  const cases: [columns: object[], message: RegExp][] = [
    [[{ ...column, type: 'decimal' }], /score has an unknown type, decimal: use one of string, int, /],
    [[{ ...column, type: 'toString' }], /unknown type/],
    [[{ ...column, pointer: 'score' }], /score has no JSON Pointer: score\./],
    [[{ ...column, pointer: '' }], /no JSON Pointer/],
    [[{ ...column, pointer: '/a~2' }], /no JSON Pointer/],
    [[column, { ...column, name: 'Score' }], /Score exists already/],
    [[{ ...column, name: 'EVENTID' }], /EVENTID exists already/],
    [[{ ...column, name: 'event' }], /event exists already/],
    [[{ ...column, name: 'hour' }], /hour exists already/],
    [[{ ...column, name: '' }], /needs a name/],
  ]
  for (const [columns, message] of cases) {
    t.throws(() => parquet({ columns: columns as ParquetColumn[] }), { code: 'invalid-argument', message })
  }
})
