import { linkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { openInput } from '../../src/files/open-input.ts'
import { createIo } from '../run-ingest.ts'

const directory = t.testdir({ 'events.ndjson': '{}\n' })
const file = join(directory, 'events.ndjson')
const { io } = createIo()

t.test('a file is read, and its size is known', async (t) => {
  const { stream, size } = await openInput(io, file, join(directory, 'other'))
  t.equal(size, 3)
  t.equal(await text(stream), '{}\n')
})

t.test('an unreadable file is refused', async (t) => {
  await t.rejects(openInput(io, join(directory, 'none')), {
    code: 'invalid-argument',
    message: /cannot be read: ENOENT/,
  })
  await t.rejects(openInput(io, directory), { code: 'invalid-argument', message: /is a directory/ })
})

t.test('the output must not be the input file under any name', async (t) => {
  const link = join(directory, 'link')
  linkSync(file, link)
  for (const output of [file, link]) {
    await t.rejects(openInput(io, file, output), { code: 'invalid-argument', message: /is the input file/ })
  }
  const other = join(directory, 'another')
  writeFileSync(other, '')
  t.match(await openInput(io, file, other), { size: 3 })
})
