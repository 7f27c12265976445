import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { IngestError } from '@ingest/core'
import t from 'tap'
import { syncDirectory, writeFile } from '../../src/files/write-file.ts'

t.test('a file is replaced when it is complete', async (t) => {
  const directory = t.testdir({ there: 'as it was' })
  const path = join(directory, 'there')
  await writeFile(path, async (write) => {
    t.equal(await write(Buffer.from('new ')), true)
    t.equal(readFileSync(path, 'utf8'), 'as it was')
    await write(Buffer.from('content'))
  })
  t.equal(readFileSync(path, 'utf8'), 'new content')
  t.strictSame(readdirSync(directory), ['there'])
})

t.test('a failure leaves an existing file unchanged', async (t) => {
  const directory = t.testdir({ there: 'as it was' })
  for (const error of [new Error('a bug'), new IngestError('map-replaced', 'Replaced.')]) {
    const writing = writeFile(join(directory, 'there'), async (write) => {
      await write(Buffer.from('half'))
      throw error
    })
    await t.rejects(writing, error)
  }
  t.strictSame(readdirSync(directory), ['there'])
  t.equal(readFileSync(join(directory, 'there'), 'utf8'), 'as it was')
})

t.test('an unwritable path is refused before fill() runs', async (t) => {
  const directory = t.testdir({ directory: {} })
  for (const path of [join(directory, 'none', 'file'), join(directory, 'directory')]) {
    await t.rejects(
      writeFile(path, async () => void t.fail('nothing is asked for')),
      { code: 'invalid-argument' },
    )
  }
  t.strictSame(readdirSync(directory), ['directory'])
})

const noPipes = { skip: process.platform === 'win32' && 'no mkfifo here' }

t.test('a pipe is written directly', noPipes, async (t) => {
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

t.test('a full disk', async (t) => {
  const writing = writeFile(join(t.testdir(), 'file'), () =>
    Promise.reject(Object.assign(new Error('no space'), { code: 'ENOSPC', syscall: 'write' })),
  )
  await t.rejects(writing, { code: 'disk-full' })
})

t.test('a directory is synced', async (t) => {
  await t.resolves(syncDirectory(t.testdir()))
})

t.test(
  'syncing a missing directory fails',
  { skip: process.platform === 'win32' && 'nothing is synced there' },
  async (t) => {
    await t.rejects(syncDirectory(join(t.testdir(), 'none')), { code: 'ENOENT' })
  },
)
