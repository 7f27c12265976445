import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { decompress } from '@bokuweb/zstd-wasm'
import { createClient } from '@ingest/client'
import { createIngest, type EmbeddedIngest, eventLine, type Ingest, openMemoryStore } from '@ingest/core'
import { serve } from '@ingest/server'
import { parquetReadObjects } from 'hyparquet'
import t, { type Test } from 'tap'
import { type EventSource, type ExportFilesOptions, exportFiles, lineBytes } from '../src/export-files.ts'
import { ndjson } from '../src/ndjson.ts'
import { type ParquetColumn, parquet } from '../src/parquet.ts'

const duckdb = await import('@duckdb/node-api').catch(() => undefined)
const noDuckDb = duckdb ? false : 'DuckDB has no binary for this platform'

const hourMs = 3_600_000
const noon = Date.UTC(2026, 10, 20, 12)
const idsOf = (name: string, count: number) => Array.from({ length: count }, (_, i) => `${name}-${i}`)
const filesIn = (directory: string) => readdirSync(directory).filter((name) => !name.startsWith('.'))

/** A project, embedded or over HTTP, whose events are received at the time of `clock`. */
async function openProject(t: Test, isServed: boolean, directory = join(t.testdir({}), 'files')) {
  const clock = { now: noon }
  const embedded = createIngest({ store: openMemoryStore(), now: () => clock.now })
  t.teardown(() => embedded.close())
  const ingest: Ingest = isServed ? await connect(t, embedded) : embedded.project('demo')
  const submit = (ids: readonly string[], more = {}) =>
    ingest.submitBatch({ events: ids.map((eventId) => ({ projectId: 'demo', eventId, ...more })) })
  return { clock, ingest, submit, directory }
}

async function connect(t: Test, ingest: EmbeddedIngest): Promise<Ingest> {
  const server = await serve({ ingest, host: '127.0.0.1', port: 0 })
  const { key } = await ingest.keys.create('demo')
  const client = createClient({ url: server.url, projectId: 'demo', key })
  t.teardown(async () => {
    await client.close()
    await server.close()
  })
  return client
}

function textOf(path: string): string {
  const bytes = readFileSync(path)
  return path.endsWith('.gz') ? gunzipSync(bytes).toString() : bytes.toString()
}

/** The ids of the events in the NDJSON files of a directory, in the order of their names. */
function idsIn(directory: string): string[] {
  const lines = filesIn(directory).flatMap((name) => textOf(join(directory, name)).trimEnd().split('\n'))
  return lines.map((line) => JSON.parse(line).event.eventId)
}

t.test('relative paths are those of the start, also when the process changes its directory', async (t) => {
  const { ingest, submit } = await openProject(t, false)
  await submit(idsOf('a', 3))
  const root = realpathSync(t.testdir({ start: {}, elsewhere: {} }))
  const cwd = process.cwd()
  t.teardown(() => process.chdir(cwd))
  process.chdir(join(root, 'start'))
  const onFile = () => process.chdir(join(root, 'elsewhere'))
  await exportFiles(ingest, { directory: 'files', cursorFile: 'cursor.json', fileBytesMax: 1, onFile })
  t.strictSame(idsIn(join(root, 'start/files')), idsOf('a', 3))
  t.equal(JSON.parse(readFileSync(join(root, 'start/cursor.json'), 'utf8')).last.number, 3)
  t.strictSame(readdirSync(join(root, 'elsewhere')), [])
})

for (const isServed of [false, true]) {
  const name = isServed ? 'over HTTP' : 'embedded'

  t.test(`${name}: each run continues after the last one`, async (t) => {
    const { ingest, submit, directory } = await openProject(t, isServed)
    t.strictSame(await exportFiles(ingest, { directory }), { files: [], cursor: undefined })
    await submit(idsOf('a', 10))
    const first = await exportFiles(ingest, { directory, limit: 8 })
    const { cursor = '' } = (await ingest.findEvent('a-7')) ?? {}
    t.match(first, { cursor, files: [{ number: 1, events: 8, cursor, firstReceivedAt: noon, lastReceivedAt: noon }] })
    t.match(await exportFiles(ingest, { directory }), { files: [{ events: 2 }] })
    t.strictSame(idsIn(directory), idsOf('a', 10))
    await submit(idsOf('b', 3))
    const options = { directory: join(directory, 'parquet'), after: cursor, format: parquet() }
    t.match(await exportFiles(ingest, { ...options, limit: 2 }), { files: [{ number: 1, events: 2 }] })
    t.match(await exportFiles(ingest, options), { files: [{ number: 2, events: 3 }] })
    t.strictSame((await exportFiles(ingest, options)).files, [])
    const ids: unknown[] = []
    for (const name of filesIn(options.directory)) {
      const file = new Uint8Array(readFileSync(join(options.directory, name))).buffer
      const rows = await parquetReadObjects({ file, compressors: { ZSTD: (bytes) => decompress(bytes) } })
      ids.push(...rows.map(({ eventId }) => eventId))
    }
    t.strictSame(ids, [...idsOf('a', 10).slice(8), ...idsOf('b', 3)])
  })

  t.test(`${name}: events are selected, and files are cut by hour and size`, async (t) => {
    const { clock, ingest, submit, directory } = await openProject(t, isServed)
    for (const hour of [0, 1, 2]) {
      clock.now = noon + hour * hourMs
      await submit(idsOf(`start-${hour}`, 2), { type: 'round.start' })
      await submit(idsOf(`end-${hour}`, 2), { type: 'round.end' })
    }
    const seen: string[] = []
    const options: ExportFilesOptions = {
      directory,
      type: 'round.end',
      every: 'hour',
      now: () => clock.now,
      onFile: async ({ file }) => void seen.push(file),
    }
    await exportFiles(ingest, options)
    t.strictSame(seen, ['demo-00000001-20261120T120000Z.ndjson', 'demo-00000002-20261120T130000Z.ndjson'])
    t.strictSame(idsIn(directory), [...idsOf('end-0', 2), ...idsOf('end-1', 2)])
    await t.rejects(exportFiles(ingest, { directory, type: 'round.start' }), {
      code: 'invalid-argument',
      message: 'belongs to the type round.end, and not to round.start: use another directory and cursor file.',
    })
    const { every: _, ...rest } = options
    t.match(await exportFiles(ingest, { ...rest, fileBytesMax: 1 }), { files: [{ events: 1 }, { events: 1 }] })
  })

  t.test(`${name}: the cursor file of another store is refused, and says so`, async (t) => {
    const { ingest, submit, directory } = await openProject(t, isServed)
    await submit(['a'])
    await exportFiles(ingest, { directory })
    const other = await openProject(t, isServed, directory)
    await other.submit(['a'])
    await t.rejects(exportFiles(other.ingest, { directory }), {
      code: 'invalid-cursor',
      message: new RegExp(`^${join(directory, '.ingest-export.json')} does not match the store: .*ingest restore`),
    })
  })
}

t.test('a later run with another start or layout is refused: it would skip events or mix files', async (t) => {
  const { ingest, submit, directory } = await openProject(t, false)
  await submit(['a'])
  const column = { name: 'score', pointer: '/score', type: 'int' } as const
  const columns = parquet({ columns: [column] })
  const runs: [first: Partial<ExportFilesOptions>, later: Partial<ExportFilesOptions>, message: string][] = [
    [{}, { from: noon }, 'the start time (not given), and not to 2026-11-20T12:00:00.000Z'],
    [
      { from: noon },
      { from: noon + 1 },
      'the start time 2026-11-20T12:00:00.000Z, and not to 2026-11-20T12:00:00.001Z',
    ],
    [{ from: noon }, {}, 'the start time 2026-11-20T12:00:00.000Z, and not to (not given)'],
    [{}, { format: ndjson({ gzip: true }) }, 'the format ndjson, and not to ndjson with gzip'],
    [{}, { format: parquet() }, 'the format ndjson, and not to parquet with the columns event'],
    [
      { format: columns },
      { format: parquet({ columns: [{ ...column, type: 'float' }] }) },
      'the format parquet with the columns score=/score:int event, and not to parquet with the columns score=/score:float event',
    ],
    [{ partition: 'hive' }, {}, 'the partition hive, and not to (not given)'],
  ]
  for (const [index, [first, later, difference]] of runs.entries()) {
    const options = { directory: join(directory, String(index)) }
    t.match(await exportFiles(ingest, { ...options, ...first }), { files: [{ events: 1 }] })
    const message = `${join(options.directory, '.ingest-export.json')} belongs to ${difference}: use another directory and cursor file.`
    await t.rejects(exportFiles(ingest, { ...options, ...later }), { code: 'invalid-argument', message })
    t.strictSame((await exportFiles(ingest, { ...options, ...first })).files, [])
  }
})

t.test('a later run may end later', async (t) => {
  const { clock, ingest, submit, directory } = await openProject(t, false)
  for (const hour of [0, 1, 2]) {
    clock.now = noon + hour * hourMs
    await submit(idsOf(`hour-${hour}`, 2))
  }
  for (const hour of [1, 2, 3]) {
    const to = noon + hour * hourMs
    t.match(await exportFiles(ingest, { directory, from: noon, to }), { files: [{ events: 2 }] })
  }
  t.equal(idsIn(directory).length, 6)
})

t.test('hive partitions are folders of hours, which DuckDB prunes by path', { skip: noDuckDb }, async (t) => {
  const { clock, ingest, submit, directory } = await openProject(t, false)
  for (const hours of [0, 5, 6, 14]) {
    clock.now = noon + hours * hourMs
    await submit(idsOf(`hour-${hours}`, 3))
  }
  const { files } = await exportFiles(ingest, { directory, format: parquet(), partition: 'hive', limit: 10 })
  t.strictSame(
    files.map(({ file }) => file.replace(/[^/]*$/, '')),
    ['dt=2026-11-20/hour=12/', 'dt=2026-11-20/hour=17/', 'dt=2026-11-20/hour=18/', 'dt=2026-11-21/hour=02/'],
  )
  for (const [date, hour, ids] of [
    ['2026-11-20', 17, idsOf('hour-5', 3)],
    ['2026-11-21', 2, ['hour-14-0']],
  ] as const) {
    const table = `read_parquet('${directory}/**/*.parquet', hive_partitioning = true)`
    const query = `FROM ${table} WHERE dt = '${date}' AND hour = ${hour}`
    const rows = await queryDuckDb(`SELECT eventId ${query}`)
    t.strictSame(
      rows,
      ids.map((eventId) => ({ eventId })),
    )
    t.match(JSON.stringify(await queryDuckDb(`EXPLAIN SELECT * ${query}`)), 'Scanning Files: 1/4')
  }
})

t.test('DuckDB reads files of exports with different columns together, by name', { skip: noDuckDb }, async (t) => {
  const { ingest, submit, directory } = await openProject(t, false)
  let after: { after?: string } = {}
  const run = async (name: string, type: ParquetColumn['type']) => {
    const options = { directory: join(directory, `${name}-${type}`), ...after }
    const format = parquet({ columns: [{ name, pointer: '/score', type }] })
    const { files, cursor } = await exportFiles(ingest, { ...options, format })
    t.equal(files.length, 1)
    after = { after: cursor ?? '' }
  }
  await submit(['a'], { score: 1 })
  await run('score', 'int')
  await submit(['b'], { score: 2.5 })
  await run('score', 'float')
  await submit(['c'], { score: 'x' })
  await run('grade', 'string')
  const table = `read_parquet('${directory}/*/*.parquet', union_by_name = true)`
  t.strictSame(await queryDuckDb(`SELECT eventId, score, grade FROM ${table} ORDER BY eventId`), [
    { eventId: 'a', score: 1, grade: null },
    { eventId: 'b', score: 2.5, grade: null },
    { eventId: 'c', score: null, grade: 'x' },
  ])
})

async function queryDuckDb(sql: string) {
  const database = await duckdb?.DuckDBInstance.create(':memory:')
  const connection = await database?.connect()
  const rows = (await connection?.runAndReadAll(sql))?.getRowObjectsJS()
  connection?.closeSync()
  database?.closeSync()
  return rows
}

t.test('an aborted export leaves no partial file, and rejects with the reason of the signal', async (t) => {
  const { ingest, submit, directory } = await openProject(t, false)
  await submit(idsOf('e', 9))
  const stop = new AbortController()
  const reason = new Error('stopped')
  const source: EventSource = {
    projectId: 'demo',
    async *readEvents(options) {
      let left = 5
      for await (const event of ingest.readEvents(options)) {
        if (left-- === 0) stop.abort(reason)
        yield event
      }
    },
  }
  const oneLine = 120
  await t.rejects(exportFiles(source, { directory, fileBytesMax: 3 * oneLine, signal: stop.signal }), reason)
  const left = idsIn(directory)
  t.ok(left.length > 0 && left.length < 9)
  t.strictSame(
    readdirSync(directory).filter((name) => name.endsWith('.part')),
    [],
  )
  await exportFiles(ingest, { directory })
  t.strictSame(idsIn(directory), idsOf('e', 9))
})

t.test('all events before a failure are exported, in each format', async (t) => {
  for (const format of [ndjson(), ndjson({ gzip: true }), parquet()]) {
    const { ingest, submit, directory } = await openProject(t, false)
    await submit(idsOf('e', 5))
    const failure = new Error('damaged')
    const source: EventSource = {
      projectId: 'demo',
      async *readEvents(options) {
        yield* ingest.readEvents(options)
        throw failure
      },
    }
    await t.rejects(exportFiles(source, { directory, format }), failure)
    t.equal(filesIn(directory).length, 1)
    t.match(await exportFiles(ingest, { directory, format }), { files: { length: 0 } })
  }
})

t.test('a format that fails leaves no file', async (t) => {
  const { ingest, submit, directory } = await openProject(t, false)
  await submit(['a'])
  const failure = new Error('its own')
  const format = {
    name: 'odd',
    extension: 'odd',
    async *encode() {
      yield Buffer.from('half')
      throw failure
    },
  }
  await t.rejects(exportFiles(ingest, { directory, format }), failure)
  t.strictSame(readdirSync(directory), [])
})

t.test('invalid options are refused before anything is written', async (t) => {
  const { ingest, directory } = await openProject(t, false)
  for (const [name, value] of [
    ['every', 'week'],
    ['every', 'toString'],
    ['partition', 'year'],
    ['fileBytesMax', 0],
    ['fileBytesMax', 1.5],
  ] as const) {
    const options = { directory, [name]: value } as unknown as ExportFilesOptions
    await t.rejects(exportFiles(ingest, options), { code: 'invalid-argument', message: new RegExp(`^${name} must be`) })
  }
  t.notOk(existsSync(directory))
})

t.test('lineBytes is the length of the line of an event', async (t) => {
  const { clock, ingest, submit } = await openProject(t, false)
  await submit(['ü', 'line\\nbreak'], { text: '\u2028' })
  clock.now = Date.UTC(2286, 10, 21)
  await ingest.submitBatch(Buffer.from('{"events":[{\r\n"projectId":"demo","eventId":"lines"\n}]}'))
  for await (const event of ingest.readEvents()) t.equal(lineBytes(event), eventLine(event).length)
})
