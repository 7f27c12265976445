import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t from 'tap'
import { IngestError } from '../../src/error.ts'
import { syncDirectory, writeFile } from '../../src/files/write-file.ts'

t.test('a file is replaced when it is complete, and not by a failure', async (t) => {
  const directory = t.testdir({ there: 'as it was' })
  const path = join(directory, 'there')
  for (const error of [new Error('a bug'), new IngestError('map-replaced', 'Replaced.')]) {
    const writing = writeFile(path, async (write) => {
      await write(Buffer.from('half'))
      throw error
    })
    await t.rejects(writing, error)
  }
  for (const code of ['ENOSPC', 'EDQUOT', 'EFBIG']) {
    const full = Object.assign(new Error('no space'), { code, syscall: 'write' })
    await t.rejects(
      writeFile(path, () => Promise.reject(full)),
      { code: 'disk-full' },
      code,
    )
  }
  await writeFile(path, async (write) => {
    t.equal(await write(Buffer.from('new ')), true)
    t.equal(readFileSync(path, 'utf8'), 'as it was')
    await write(Buffer.from('content'))
  })
  t.equal(readFileSync(path, 'utf8'), 'new content')
  t.strictSame(readdirSync(directory), ['there'])
})

t.test('an unwritable path is refused before anything is written', async (t) => {
  const directory = t.testdir({ directory: {} })
  for (const path of [join(directory, 'none', 'file'), join(directory, 'directory')]) {
    const writing = writeFile(path, async () => void t.fail('nothing is asked for'))
    await t.rejects(writing, { code: 'invalid-argument' })
  }
  t.strictSame(readdirSync(directory), ['directory'])
})

const isWindows = process.platform === 'win32'

t.test('a pipe is written directly', { skip: isWindows && 'no mkfifo here' }, async (t) => {
  const pipe = join(t.testdir(), 'pipe')
  execFileSync('mkfifo', [pipe])
  const read = readFile(pipe, 'utf8')
  await writeFile(pipe, async (write) => {
    await write(Buffer.from('con'))
    await write(Buffer.from('tent'))
  })
  t.ok(statSync(pipe).isFIFO())
  t.equal(await read, 'content')
  t.strictSame(readdirSync(dirname(pipe)), ['pipe'])
})

t.test('a directory is synced; a missing one is an error', { skip: isWindows && 'nothing is synced' }, async (t) => {
  await t.resolves(syncDirectory(t.testdir()))
  await t.rejects(syncDirectory(join(t.testdir(), 'none')), { code: 'ENOENT' })
})
