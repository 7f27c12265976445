import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { type FileHandle, open as openFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { FileContent } from '../src/cursor-file.ts'
import { cursorFileName, type ExportDirectory, openExportDirectory } from '../src/export-directory.ts'

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
  return openExportDirectory({ directory, cursorFile, project, format: 'ndjson' })
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

/** A directory after two files, the second of which is still hidden; `before` is the cursor file without it. */
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

t.test('a crash between the cursor file and the name: the file gets its name, and is not changed', async (t) => {
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

t.test('a file for a folder is hidden in the directory, and a crash before it gets its name is repaired', async (t) => {
  const path = t.testdir()
  const folder = 'dt=2026-11-20/hour=17'
  const directory = await open(path)
  let hidden = ''
  const written = await directory.add({ ...file, folder }, async (handle) => {
    hidden = readdirSync(path).find((name) => name.endsWith('.part')) ?? ''
    await handle.writeFile('one')
    return contentOf('one')
  })
  await directory.close()
  t.equal(written.file, `${folder}/${namesOf(1)}`)
  t.equal(readFileSync(join(path, written.file), 'utf8'), 'one')
  t.strictSame(shown(path), ['dt=2026-11-20'])
  renameSync(join(path, written.file), join(path, hidden))
  rmSync(join(path, 'dt=2026-11-20'), { recursive: true })
  const next = await open(path)
  t.match(next, { last: { number: 1 }, completed: { file: written.file } })
  t.equal(readFileSync(join(path, written.file), 'utf8'), 'one')
  await add(next, 'two')
  await next.close()
  t.strictSame(shown(path), [namesOf(2), 'dt=2026-11-20'])
})

t.test('a file that got its name in a run that was killed is durable before the next file', async (t) => {
  const path = t.testdir()
  const folder = 'dt=2026-11-20/hour=17'
  const killed = await open(path)
  await killed.add({ ...file, folder }, async () => contentOf('one'))
  await killed.close()
  const handle = await openFile(path)
  await handle.close()
  const synced: number[] = []
  t.capture(Object.getPrototypeOf(handle), 'sync', async function (this: FileHandle) {
    synced.push((await this.stat()).ino)
  })
  const next = await open(path)
  for (const each of ['dt=2026-11-20', folder]) {
    t.ok(synced.includes(statSync(join(path, each)).ino), `${each} is synced`)
  }
  rmSync(join(path, 'dt=2026-11-20'), { recursive: true })
  await next.close()
  await (await open(path)).close()
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
  await t.rejects(openExportDirectory({ directory: a, cursorFile, project: 'other', format: 'ndjson' }), {
    code: 'invalid-argument',
    message: 'belongs to the project demo, and not to other',
  })
  await t.rejects(openExportDirectory({ directory: a, cursorFile, project, format: 'ndjson', playerId: '7' }), {
    code: 'invalid-argument',
    message: 'belongs to the playerId (not given), and not to 7',
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
    { ...last, file: 'dt=2026-11-20/hour=17/../x' },
    { ...last, file: 'dt=2026-11-20/hour=17/hour=18/x' },
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
    await t.rejects(open(directory), { code: 'invalid-argument', message: 'cannot be a directory' })
  }
  await t.rejects(open(join(path, 'fine'), join(path, 'none', 'cursor.json')), { code: 'invalid-argument' })
  t.strictSame(readdirSync(join(path, 'fine')), [])
})

t.test('a cursor file behind a symbolic link is written where the link points', async (t) => {
  const path = t.testdir({ kept: {}, files: {} })
  const link = join(path, 'cursor.json')
  const file = join(path, 'kept', 'cursor.json')
  symlinkSync(file, link)
  const dangling = { code: 'invalid-argument', message: `${link} cannot be written: it is a symbolic link to nothing` }
  await t.rejects(open(join(path, 'files'), link), dangling)
  const first = await open(join(path, 'files'), file)
  await add(first, 'one')
  await t.rejects(open(join(path, 'other'), link), { code: 'invalid-argument', message: 'in use' })
  await first.close()
  const second = await open(join(path, 'files'), link)
  await add(second, 'two')
  await second.close()
  t.ok(lstatSync(link).isSymbolicLink())
  t.match(readFileSync(file, 'utf8'), '"cursor":"two"')
  t.strictSame(readdirSync(join(path, 'kept')), ['cursor.json'])
})

t.test('an error of the cursor file names that file, not the directory', async (t) => {
  const path = t.testdir({ files: {}, folder: {} })
  for (const cursorFile of [join(path, 'missing', 'cursor.json'), join(path, 'folder')]) {
    const named = { code: 'invalid-argument', message: `${cursorFile} cannot be written: E` }
    await t.rejects(open(join(path, 'files'), cursorFile), named)
  }
})
