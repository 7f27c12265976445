import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createIngest, digestOf, type Ingest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { toFetchHandler } from '@ingest/server'
import t from 'tap'
import { ended, startIngest } from '../ingest-process.ts'
import { ingest } from '../run-ingest.ts'
import { exportedIds, openServed, parseExport, projectId, submitIds, withStore } from '../served.ts'

const path = t.testdir()
const data = join(path, 'data')
await withStore(data, (project: Ingest) => submitIds(project, ['a', 'b', 'c']))
const target = (data: string) => ['--store', data, '--project', projectId]

/** Changes every occurrence of a text in a file. */
function damage(file: string, text: string): void {
  const bytes = readFileSync(file)
  for (let at = bytes.indexOf(text); at !== -1; at = bytes.indexOf(text, at + 1)) bytes[at + 1] = 0x7a
  writeFileSync(file, bytes)
}

t.test('a backup is made, verified, repaired and restored', async (t) => {
  const [backup = '', restored = '', repaired = ''] = ['backup', 'restored', 'repaired'].map((name) => join(path, name))
  t.match(await ingest(['backup', backup, '--store', data]), {
    code: 0,
    stdout: /^backed up 3 events and 0 maps \(.*\) in .*backup, verified, in [\d.]+ s\n$/,
  })
  t.match(await ingest(['verify', '--store', backup]), {
    code: 0,
    stdout: /^verified 3 events in 1 record \(.*\), no id index, 0 maps \(0 B\) in [\d.]+ s: no problems\n$/,
  })
  t.match(await ingest(['verify', '--store', backup, '--quiet']), { code: 0, stdout: /^$/, stderr: /^$/ })
  t.match(await ingest(['restore', backup, '--store', restored]), { code: 0 })
  t.strictSame(await exportedIds(restored), ['a', 'b', 'c'])

  damage(join(backup, 'events', 'data.mdb'), '"eventId"')
  const found = { code: 5, stdout: /^Record 1 of the log is damaged\./, stderr: /^ingest: 1 problem: Record 1 / }
  for (const quiet of [[], ['--quiet']]) t.match(await ingest(['verify', '--store', backup, ...quiet]), found)
  const { stdout } = await ingest(['verify', '--store', backup, '--json'])
  t.match(JSON.parse(stdout), {
    ok: false,
    problemCount: 1,
    problems: [{ part: 'log', record: 1 }],
    error: { code: 'store-damaged' },
  })
  t.match(await ingest(['restore', backup, '--store', join(path, 'not-restored')]), { code: 5, stderr: /Record 1/ })
  t.match(await ingest(['repair', '--store', backup, '--to', repaired]), {
    code: 0,
    stdout: /^lost: record 1\nlost: 3 events of game-1\ncopied 0 events in 0 records, 0 maps and 1 project/,
  })
})

t.test('a signal ends a backup, and leaves nothing', async (t) => {
  const stopped = join(path, 'stopped')
  const child = startIngest(['backup', stopped, '--store', data, '--json'])
  child.kill('SIGTERM')
  const { code, signal } = await ended(child)
  // a signal before the command listens for it ends the process
  t.ok(code === 143 || signal === 'SIGTERM')
  t.notOk(existsSync(stopped))
  t.notOk(readdirSync(path).some((name) => name.includes('unfinished')))
})

function submit(data: string, ...eventIds: string[]): Promise<void> {
  return withStore(data, async (project: Ingest) => {
    for (const eventId of eventIds) await project.submitBatch({ events: [{ projectId, eventId, buildId: 'b' }] })
  })
}

/** The ids of the events in the files of a directory, in the order of their names. */
function idsIn(output: string): string[] {
  const names = readdirSync(output).filter((name) => !name.startsWith('.'))
  const texts = names.map((name) => readFileSync(join(output, name), 'utf8'))
  return parseExport(texts.join('')).map(({ event }) => JSON.parse(event).eventId)
}

/** Every file of a directory with its bytes, except LMDB's locks, which are not part of the store. */
function filesOf(directory: string): Record<string, string> {
  const entries = readdirSync(directory, { recursive: true, withFileTypes: true })
  const paths = entries.filter((entry) => entry.isFile() && entry.name !== 'lock.mdb')
  return Object.fromEntries(
    paths.map(({ parentPath, name }) => [join(parentPath, name), readFileSync(join(parentPath, name), 'base64')]),
  )
}

t.test('after a restore, an export with an old cursor file is refused, and continues with a new one', async (t) => {
  const path = t.testdir()
  const [data = '', backup = '', files = '', more = ''] = ['data', 'backup', 'files', 'more'].map((name) =>
    join(path, name),
  )
  await submit(data, 'a', 'b')
  cpSync(data, backup, { recursive: true })
  await submit(data, 'lost')
  const args = ['export', ...target(data), '--output', files]
  t.match(await ingest(args), { code: 0, stdout: /exported 3 events/ })
  renameSync(data, `${data}-failed`)

  const restored = await ingest(['restore', backup, '--store', data, '--json'])
  t.match(restored, { code: 0, stderr: '' })
  const [row] = JSON.parse(restored.stdout).projects
  t.match(row, { projectId, events: 2, cursor: /^[\w-]{32}$/ })
  for (const isLonger of [false, true]) {
    if (isLonger) await submit(data, 'new-1', 'new-2', 'new-3')
    const before = filesOf(files)
    const refused = await ingest([...args, '--json'])
    const reason = /does not match the store: .* before a backup of the store was restored/
    t.match(refused, { code: 2, stderr: reason })
    t.match(refused.stderr, /export to another directory: after the cursor that `ingest restore` printed/)
    t.match(JSON.parse(refused.stdout), { ok: false, error: { code: 'invalid-cursor', retryable: false } })
    t.strictSame(filesOf(files), before)
  }
  const moreArgs = ['export', ...target(data), '--output', more, '--after', row.cursor]
  t.match(await ingest(moreArgs), { code: 0, stdout: /exported 3 events/ })
  await submit(data, 'new-4')
  t.match(await ingest(moreArgs), { code: 0, stdout: /exported 1 event:/ })
  t.strictSame([...idsIn(files), ...idsIn(more)], ['a', 'b', 'lost', 'new-1', 'new-2', 'new-3', 'new-4'])
})

t.test('a directory copied back by hand: a cursor file ahead of the log is refused, at any length', async (t) => {
  const path = t.testdir()
  const [data = '', backup = '', files = ''] = ['data', 'backup', 'files'].map((name) => join(path, name))
  await submit(data, 'a', 'b')
  cpSync(data, backup, { recursive: true })
  await submit(data, 'lost')
  const args = ['export', ...target(data), '--output', files]
  t.match(await ingest(args), { code: 0 })
  rmSync(data, { recursive: true })
  cpSync(backup, data, { recursive: true })
  for (const more of [[], ['new-1'], ['new-2', 'new-3']]) {
    if (more.length > 0) await submit(data, ...more)
    t.match(await ingest(args), { code: 2, stdout: '', stderr: /event of the cursor is not in the store/ })
  }
})

t.test('the cursor file of another store, and the cursor of another project, are refused', async (t) => {
  const files = join(t.testdir(), 'files')
  const [one, other] = [await openServed(t), await openServed(t)]
  for (const { project } of [one, other]) await submitIds(project, ['a', 'b'])
  t.match(await ingest(['export', '--output', files], { env: one.env }), { code: 0 })
  const refused = { code: 2, stderr: /cursor is of another store/ }
  t.match(await ingest(['export', ...target(data), '--output', files]), refused)
  t.match(await ingest(['export', '--output', files], { env: other.env }), refused)
  t.strictSame(idsIn(files), ['a', 'b'])

  const after = await one.project.lastCursor()
  const { key } = await one.embedded.keys.create('another')
  for (const command of ['export', 'tail']) {
    const args = [command, '--project', 'another', '--after', after]
    const foreign = { code: 2, stdout: '', stderr: /^ingest: The cursor is of another project\.\n$/ }
    t.match(await ingest(args, { env: { ...one.env, INGEST_KEY: key } }), foreign)
  }
})

t.test('a restore into a directory that is not empty is refused, and changes nothing', async (t) => {
  const before = filesOf(data)
  t.match(await ingest(['restore', data, '--store', data]), { code: 2, stderr: /is not empty: move it away/ })
  t.strictSame(filesOf(data), before)
})

t.test('a damaged, foreign or incomplete store: exit code 5 from every command, and no change', async (t) => {
  const path = t.testdir()
  const [whole = '', other = ''] = ['whole', 'other'].map((name) => join(path, name))
  const publish = ['publish-map', '-', '--place', '1', '--build', 'b']
  for (const data of [whole, other]) {
    await submit(data, 'a')
    t.match(await ingest([...publish, ...target(data)], { stdin: '{"walls":4}' }), { code: 0 })
  }
  const intact = readFileSync(join(whole, 'events', 'data.mdb'))
  const withEvents = (bytes: Buffer) => (data: string) => writeFileSync(join(data, 'events', 'data.mdb'), bytes)
  const ways: [name: string, lose: (data: string) => void][] = ['events', 'chunks'].flatMap((part) => [
    [`${part} is missing`, (data) => rmSync(join(data, part), { recursive: true })],
    [
      `${part} is empty`,
      (data) => {
        rmSync(join(data, part), { recursive: true })
        mkdirSync(join(data, part))
      },
    ],
    [`${part} has lost its data file`, (data) => rmSync(join(data, part, 'data.mdb'))],
    [`${part} is of another store`, (data) => cpSync(join(other, part), join(data, part), { recursive: true })],
  ])
  ways.push(
    ['zeroed', withEvents(Buffer.alloc(intact.length))],
    ['cut to its half', withEvents(intact.subarray(0, intact.length / 2))],
    ['cut in its header', withEvents(intact.subarray(0, 100))],
    ['foreign', withEvents(Buffer.from('SQLite format 3\0'.repeat(1000)))],
  )
  for (const [name, lose] of ways) {
    const data = join(path, name)
    cpSync(whole, data, { recursive: true })
    lose(data)
    const before = filesOf(data)
    const serve = ['serve', '--store', data, '--listen', '127.0.0.1:0']
    const commands = ['keys create', 'keys list', 'export', 'maps list'].map((line) => [
      ...line.split(' '),
      ...target(data),
    ])
    for (const command of [serve, ...commands]) {
      const { code, stdout, stderr } = await ingest(command)
      t.strictSame([code, stdout], [5, ''], `${command[0]}: ${name}`)
      t.match(stderr, /^ingest: .*(is missing or empty|does not belong|data\.mdb cannot be opened: ).*\n$/, name)
      if (/(events|chunks) /.test(name)) t.match(stderr, /restore the whole directory/, name)
    }
    t.strictSame(filesOf(data), before, `nothing changes: ${name}`)
  }
  rmSync(join(whole, 'ids'), { recursive: true })
  t.match(await ingest(['find', 'a', ...target(whole)]), { code: 0, stdout: /"eventId":"a"/ })
  t.match(await ingest(['maps', 'download', ...target(whole), '--place', '1', '--build', 'b']), { code: 0 })
})

const silent = { debug() {}, info() {}, warn() {}, error() {}, isLevelEnabled: () => false }

t.test('damaged bytes of a map are refused with store-damaged, and not to be cached', async (t) => {
  const directory = t.testdir()
  const ingest = createIngest({ store: await openLmdbStore(directory) })
  const map = { walls: 'undamaged '.repeat(100) }
  await ingest.project('p').publishMap({ placeId: '1', buildId: 'b', map })
  await ingest.project('p').submitBatch({ events: [{ projectId: 'p', eventId: 'freezes', buildId: 'b' }] })
  const { key } = await ingest.keys.create('p')
  await ingest.close()
  damage(join(directory, 'chunks', 'data.mdb'), 'undamaged ')

  const again = createIngest({ store: await openLmdbStore(directory) })
  t.teardown(() => again.close())
  const handle = toFetchHandler(again, { log: silent })
  const digest = digestOf(Buffer.from(JSON.stringify(map)))
  for (const [target, range] of [
    ['content?placeId=1&buildId=b', undefined],
    ['content?placeId=1&buildId=b', 'bytes=0-9'],
    [`chunks?digest=${digest}`, undefined],
  ] as const) {
    const headers = { 'X-Project-Id': 'p', 'X-Ingestion-Key': key, ...(range && { Range: range }) }
    const response = await handle(new Request(`http://localhost/v1/maps/${target}`, { headers }))
    t.equal(response.status, 500)
    t.match(await response.json(), { code: 'store-damaged' })
    t.notMatch(response.headers.get('Cache-Control') ?? '', /immutable/)
    t.equal(response.headers.get('ETag'), null)
  }
})
