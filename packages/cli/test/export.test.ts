import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { gunzipSync } from 'node:zlib'
import { createIngest, openMemoryStore, type StoredEvent } from '@ingest/core'
import { knownFields } from '@ingest/core/internal'
import fc from 'fast-check'
import { parquetMetadata, parquetReadObjects } from 'hyparquet'
import t from 'tap'
import type { FileContent } from '../src/export/cursor-file.ts'
import { type CutRules, cutEvents, type EventLine, type Period } from '../src/export/cut-events.ts'
import { encodeNdjson } from '../src/export/encode-ndjson.ts'
import { encodeParquet, type ParquetOptions } from '../src/export/encode-parquet.ts'
import { cursorFileName, type ExportDirectory, openExportDirectory } from '../src/export/export-directory.ts'

const project = 'demo'
const receivedAt = Date.UTC(2026, 10, 20, 17, 51)
const file = { receivedAt, extension: 'ndjson' }

const contentOf = (cursor: string): FileContent => ({
  events: 1,
  cursor,
  firstReceivedAt: receivedAt,
  lastReceivedAt: receivedAt,
})

function open(directory: string, cursorFile = join(directory, cursorFileName)) {
  return openExportDirectory({ directory, cursorFile, project })
}

function add(directory: ExportDirectory, text: string, cursor = text) {
  return directory.add(file, async (handle) => {
    await handle.writeFile(text)
    return contentOf(cursor)
  })
}

const namesOf = (number: number) => `demo-${String(number).padStart(8, '0')}-20261120T175100Z.ndjson`
const shown = (directory: string) => readdirSync(directory).filter((name) => !name.startsWith('.'))
const hiddenIn = (directory: string) => readdirSync(directory).filter((name) => name.startsWith('.'))

t.test('files are numbered in order, and the next run continues after them', async (t) => {
  const path = join(t.testdir(), 'a', 'b')
  const first = await open(path)
  t.equal(first.last, undefined)
  const written = await add(first, 'one')
  t.strictSame(written, {
    file: namesOf(1),
    number: 1,
    events: 1,
    cursor: 'one',
    firstReceivedAt: receivedAt,
    lastReceivedAt: receivedAt,
    bytes: 3,
  })
  await add(first, 'two')
  await first.close()
  t.strictSame(hiddenIn(path), [cursorFileName])
  const second = await open(path)
  t.match(second, { last: { file: namesOf(2), cursor: 'two' }, completed: undefined })
  await add(second, 'three')
  await second.close()
  t.strictSame(
    shown(path).map((name) => [name, readFileSync(join(path, name), 'utf8')]),
    [
      [namesOf(1), 'one'],
      [namesOf(2), 'two'],
      [namesOf(3), 'three'],
    ],
  )
})

t.test('a file is hidden until it is complete', async (t) => {
  const path = t.testdir()
  const directory = await open(path)
  await directory.add(file, async (handle) => {
    await handle.writeFile('half')
    t.strictSame(shown(path), [])
    return contentOf('c')
  })
  t.strictSame(shown(path), [namesOf(1)])
  await directory.close()
})

t.test('a failed run leaves no file', async (t) => {
  const path = t.testdir()
  const directory = await open(path)
  await add(directory, 'one')
  const failing = directory.add(file, async (handle) => {
    await handle.writeFile('half')
    throw new Error('damaged')
  })
  await t.rejects(failing, new Error('damaged'))
  await directory.close()
  t.strictSame(readdirSync(path), [cursorFileName, namesOf(1)])
  const next = await open(path)
  t.match(next, { last: { cursor: 'one' }, completed: undefined })
  await next.close()
})

/** A directory as it is after two files, the second of which is still hidden, or not even that. */
async function afterTwo(path: string): Promise<{ hidden: string; cursorFile: string; before: string }> {
  const cursorFile = join(path, cursorFileName)
  const directory = await open(path)
  await add(directory, 'one')
  const before = readFileSync(cursorFile, 'utf8')
  let hidden = ''
  await directory.add(file, async (handle) => {
    hidden = join(path, readdirSync(path).find((name) => name.includes(namesOf(2))) ?? '')
    await handle.writeFile('two')
    return contentOf('two')
  })
  await directory.close()
  renameSync(join(path, namesOf(2)), hidden)
  return { hidden, cursorFile, before }
}

t.test('a crash before the cursor file: the file does not count, and is written again', async (t) => {
  const path = t.testdir()
  const { cursorFile, before } = await afterTwo(path)
  writeFileSync(cursorFile, before)
  writeFileSync(`${cursorFile}.part`, '{"half')
  const directory = await open(path)
  t.match(directory, { last: { cursor: 'one' }, completed: undefined })
  t.strictSame(shown(path), [namesOf(1)])
  await add(directory, 'two and more', 'more')
  await directory.close()
  t.strictSame(readdirSync(path), [cursorFileName, namesOf(1), namesOf(2)])
  t.equal(readFileSync(join(path, namesOf(2)), 'utf8'), 'two and more')
})

t.test('a crash between the cursor file and the name: the file gets its name, and stays as it is', async (t) => {
  const path = t.testdir()
  await afterTwo(path)
  const directory = await open(path)
  t.match(directory, { last: { cursor: 'two' }, completed: { file: namesOf(2) } })
  t.equal(readFileSync(join(path, namesOf(2)), 'utf8'), 'two')
  await add(directory, 'three')
  await directory.close()
  t.strictSame(shown(path), [1, 2, 3].map(namesOf))
})

t.test('a crash after the name: nothing to repair, also if the file was moved away', async (t) => {
  for (const isTaken of [false, true]) {
    const path = t.testdir()
    const { hidden } = await afterTwo(path)
    renameSync(hidden, join(path, namesOf(2)))
    if (isTaken) for (const name of shown(path)) rmSync(join(path, name))
    const directory = await open(path)
    t.match(directory, { last: { cursor: 'two' }, completed: undefined })
    t.match(await add(directory, 'three'), { number: 3 })
    await directory.close()
  }
})

t.test('concurrent exports are refused, by directory and by cursor file', async (t) => {
  const path = t.testdir({ a: {}, b: {} })
  const [a, b] = [join(path, 'a'), join(path, 'b')]
  const cursorFile = join(path, 'cursor.json')
  const one = await open(a, cursorFile)
  await t.rejects(open(a), { code: 'invalid-argument', message: `${a} is in use by process ${process.pid}` })
  await t.rejects(open(b, cursorFile), { code: 'invalid-argument', message: 'in use' })
  await one.close()
  for (const directory of [await open(a), await open(b)]) await directory.close()
  t.strictSame([readdirSync(a), readdirSync(b), readdirSync(path)], [[], [], ['a', 'b']])
})

t.test('a cursor file may be elsewhere, and belongs to one directory, project and filter', async (t) => {
  const path = t.testdir({ a: {}, b: {} })
  const [a, b] = [join(path, 'a'), join(path, 'b')]
  const cursorFile = join(path, 'cursor.json')
  const one = await open(a, cursorFile)
  await add(one, 'one')
  await one.close()
  await t.rejects(open(b, cursorFile), {
    code: 'invalid-argument',
    message: 'belongs to the directory a, and not to b',
  })
  await t.rejects(openExportDirectory({ directory: a, cursorFile, project: 'other' }), {
    code: 'invalid-argument',
    message: 'belongs to the project demo, and not to other',
  })
  await t.rejects(openExportDirectory({ directory: a, cursorFile, project, playerId: '7' }), {
    code: 'invalid-argument',
    message: 'belongs to the playerId (any), and not to 7',
  })
  mkdirSync(join(path, 'moved'))
  renameSync(a, join(path, 'moved', 'a'))
  renameSync(cursorFile, join(path, 'moved', 'cursor.json'))
  const moved = await open(join(path, 'moved', 'a'), join(path, 'moved', 'cursor.json'))
  t.equal(moved.last?.cursor, 'one')
  await moved.close()
})

t.test('files of an export with another cursor file are kept', async (t) => {
  const path = t.testdir({ files: {} })
  const directory = join(path, 'files')
  const { hidden } = await afterTwo(directory)
  rmSync(join(directory, namesOf(1)))
  const other = await open(directory, join(path, 'cursor.json'))
  t.ok(existsSync(hidden))
  await other.close()
  t.ok(existsSync(hidden))
})

t.test('an existing file is not overwritten', async (t) => {
  const path = t.testdir({ [namesOf(1)]: 'mine' })
  const directory = await open(path)
  await t.rejects(add(directory, 'one'), { code: 'invalid-argument', message: 'already exists' })
  await directory.close()
  t.strictSame(readdirSync(path), [namesOf(1)])
  t.equal(readFileSync(join(path, namesOf(1)), 'utf8'), 'mine')
})

t.test('an invalid cursor file is refused, and not changed', async (t) => {
  const last = { file: namesOf(1), number: 1, cursor: 'c' }
  const texts = ['', '{}', '{"version":2}', 'null', JSON.stringify({ version: 1, project, directory: '.' })]
  const records = [
    { ...last, file: '../x' },
    { ...last, number: '1' },
    { ...last, cursor: 1 },
    { ...last, file: 1 },
  ]
  texts.push(...records.map((last) => JSON.stringify({ version: 1, project, directory: '.', last })))
  for (const text of texts) {
    const path = t.testdir({ [cursorFileName]: text })
    await t.rejects(open(path), { code: 'invalid-argument', message: 'is not a cursor file' }, text)
    t.strictSame(readdirSync(path), [cursorFileName])
    t.equal(readFileSync(join(path, cursorFileName), 'utf8'), text)
  }
})

t.test('an unusable directory is refused', async (t) => {
  const path = t.testdir({ file: 'mine' })
  for (const directory of [join(path, 'file'), join(path, 'file', 'below')]) {
    await t.rejects(open(directory), { code: 'invalid-argument', message: 'cannot be written' })
  }
  await t.rejects(open(join(path, 'fine'), join(path, 'none', 'cursor.json')), { code: 'invalid-argument' })
  t.strictSame(readdirSync(join(path, 'fine')), [])
})

const hourMs = 3_600_000
const dayMs = 24 * hourMs
/** Noon of a day. */
const noon = Date.UTC(2026, 10, 20, 12)

function event(receivedAt: number, bytes = 10): EventLine {
  return { receivedAt, line: Buffer.alloc(bytes) }
}

async function* from<E>(events: readonly E[], failure?: Error) {
  yield* events
  if (failure) throw failure
}

async function partsOf(source: AsyncIterable<EventLine>, rules: Omit<CutRules, 'now'>): Promise<EventLine[][]> {
  const parts: EventLine[][] = []
  for await (const { first, events } of cutEvents(source, { ...rules, now: noon })) {
    const part: EventLine[] = []
    parts.push(part)
    for await (const event of events) part.push(event)
    if (part[0] !== first) throw new Error('the first event is another one')
  }
  return parts
}

const sizeOf = (events: readonly EventLine[]) => events.reduce((sum, { line }) => sum + line.length, 0)

t.test('parts are in order and as large as allowed', async () => {
  const events = fc.array(
    fc.record({
      receivedAt: fc.integer({ min: noon - 3 * dayMs, max: noon - dayMs }),
      bytes: fc.integer({ min: 1, max: 50 }),
    }),
    { maxLength: 60 },
  )
  const periods = fc.constantFrom<Period | undefined>(undefined, 'hour', 'day')
  await fc.assert(
    fc.asyncProperty(events, fc.integer({ min: 1, max: 120 }), periods, async (rows, lineBytesMax, every) => {
      const all = rows.map(({ receivedAt, bytes }) => event(receivedAt, bytes))
      const parts = await partsOf(from(all), { lineBytesMax, ...(every && { every }) })
      const periodMs = { hour: hourMs, day: dayMs }[every ?? 'hour']
      const periodOf = ({ receivedAt }: EventLine) => (every ? Math.floor(receivedAt / periodMs) : 0)
      const flat = parts.flat()
      const isAll = flat.length === all.length && flat.every((each, i) => each === all[i])
      if (!isAll) throw new Error('an event is missing, twice, or out of order')
      for (const [i, part] of parts.entries()) {
        if (part.length === 0) throw new Error('a part is empty')
        if (part.length > 1 && sizeOf(part) > lineBytesMax) throw new Error('a part is too large')
        if (new Set(part.map(periodOf)).size !== 1) throw new Error('a part is of two periods')
        const next = parts[i + 1]?.[0]
        const fits =
          next && periodOf(next) === periodOf(part[0] as EventLine) && sizeOf([...part, next]) <= lineBytesMax
        if (fits) throw new Error('a part ends too early')
      }
    }),
  )
})

t.test('the current hour and the next one are left out', async (t) => {
  const cases: [Period | undefined, number, number][] = [
    ['hour', noon - 1, 1],
    ['hour', noon, 0],
    ['hour', noon + 2 * hourMs - 1, 0],
    // received while a clock was wrong
    ['hour', noon + 2 * hourMs, 1],
    ['day', noon - 12 * hourMs - 1, 1],
    ['day', noon - 12 * hourMs, 0],
    ['day', noon + 36 * hourMs - 1, 0],
    ['day', noon + 36 * hourMs, 1],
    [undefined, noon, 1],
  ]
  for (const [every, receivedAt, count] of cases) {
    const parts = await partsOf(from([event(receivedAt)]), { lineBytesMax: 100, ...(every && { every }) })
    t.equal(parts.flat().length, count, `${every} ${new Date(receivedAt).toISOString()}`)
  }
})

t.test('no event after an omitted one is exported', async (t) => {
  const events = [event(noon - hourMs), event(noon), event(noon - 1)]
  t.strictSame(await partsOf(from(events), { lineBytesMax: 100, every: 'hour' }), [[events[0]]])
})

t.test('an error is thrown after the events before it', async (t) => {
  const events = [1, 2, 3].map((receivedAt) => event(receivedAt))
  for (const count of [0, 1, 2, 3]) {
    const failure = new Error('damaged')
    const seen: EventLine[][] = []
    const reading = (async () => {
      const cut = cutEvents(from(events.slice(0, count), failure), { lineBytesMax: 20, now: noon })
      for await (const part of cut) seen.push(await Readable.from(part.events).toArray())
    })()
    await t.rejects(reading, failure)
    t.strictSame(seen.flat(), events.slice(0, count))
  }
})

t.test('a source is closed', async (t) => {
  let isClosed = false
  async function* source() {
    try {
      for (;;) yield event(1)
    } finally {
      isClosed = true
    }
  }
  for await (const part of cutEvents(source(), { lineBytesMax: 20, now: noon })) {
    t.equal((await Readable.from(part.events).toArray()).length, 2)
    break
  }
  t.ok(isClosed)
})

const lines = Array.from({ length: 3000 }, (_, i) => ({
  line: Buffer.from(`{"i":${i},"text":"${'x'.repeat(i % 100)}"}\n`),
}))
const textOf = (lines: readonly { line: Buffer }[]) => Buffer.concat(lines.map(({ line }) => line)).toString()

t.test('NDJSON chunks are the lines, in fewer writes; lines before an error come before it', async (t) => {
  const chunks = await Readable.from(encodeNdjson(from(lines))).toArray()
  t.equal(Buffer.concat(chunks).toString(), textOf(lines))
  t.ok(chunks.length > 1 && chunks.length < 10)
  for (const some of [lines.slice(0, 3), lines, []]) {
    const failure = new Error('damaged')
    const chunks: Buffer[] = []
    const encoding = (async () => {
      for await (const chunk of encodeNdjson(from(some, failure))) chunks.push(chunk)
    })()
    await t.rejects(encoding, failure)
    t.strictSame([chunks.length > 0, Buffer.concat(chunks).toString()], [some.length > 0, textOf(some)])
  }
})

const projectId = 'p'
const parquetAt = Date.UTC(2026, 10, 20, 17, 51, 0, 123)

/** The Parquet file of events, given as JSON texts. */
async function parquetOf(events: readonly string[], options: Partial<ParquetOptions> = {}): Promise<ArrayBuffer> {
  const embedded = createIngest({ store: openMemoryStore(), now: () => parquetAt })
  const project = embedded.project(projectId)
  for (let at = 0; at < events.length; at += 100) {
    const batch = events.slice(at, at + 100)
    const { accepted } = await project.submitBatch(Buffer.from(`{"events":[${batch.join(',')}]}`))
    if (accepted !== batch.length) throw new Error('some events are invalid')
  }
  const stored: AsyncIterable<StoredEvent> = project.readEvents()
  const chunks = await Readable.from(encodeParquet(stored, { gzip: false, ...options })).toArray()
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
  const groupsOf = async (options: Partial<ParquetOptions>) => {
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
