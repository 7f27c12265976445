import { PassThrough } from 'node:stream'
import type { UploadProgress } from '@ingest/client'
import t from 'tap'
import { lines, showProgress } from '../src/show-progress.ts'

const spooling: UploadProgress = { phase: 'spool', bytesDone: 10, bytesTotal: null, chunksDone: 0, chunksTotal: null }
const hashing: UploadProgress = { phase: 'hash', bytesDone: 500, bytesTotal: 2000, chunksDone: 1, chunksTotal: null }
const uploading: UploadProgress = { phase: 'upload', bytesDone: 0, bytesTotal: 1500, chunksDone: 0, chunksTotal: 6 }

/** A stream that is, or is not, a terminal, and what was written to it. */
function openStream(isTTY: boolean) {
  const stream = Object.assign(new PassThrough(), { isTTY, columns: 100, rows: 20, cursorTo() {}, clearLine() {} })
  const written: string[] = []
  stream.on('data', (text) => written.push(String(text)))
  return { stream: stream as unknown as NodeJS.WriteStream, text: () => written.join('') }
}

t.test('in a log it is a line when sending begins, and then one now and then', async (t) => {
  const written: string[] = []
  let now = 0
  const display = lines({ write: (text: unknown) => written.push(String(text)) > 0 }, () => now)
  display.show(spooling)
  display.show(hashing)
  t.strictSame(written, [])
  now = 5000
  display.show(hashing)
  t.strictSame(written.splice(0), ['ingest: hashing 500 B of 2.0 kB\n'])
  now = 5001
  display.show(uploading)
  display.show({ ...uploading, bytesDone: 250, chunksDone: 1 })
  now = 10_000
  display.show({ ...uploading, bytesDone: 500, chunksDone: 2 })
  now = 10_001
  display.show({ ...uploading, bytesDone: 750, chunksDone: 3 })
  display.end()
  t.strictSame(written, [
    'ingest: uploading 0 B of 1.5 kB, 0 of 6 chunks\n',
    'ingest: uploading 750 B of 1.5 kB, 3 of 6 chunks\n',
  ])
})

t.test('what is no terminal gets lines without any control characters', async (t) => {
  const { stream, text } = openStream(false)
  const display = await showProgress(stream)
  for (const progress of [spooling, hashing, uploading]) display.show(progress)
  display.end()
  t.equal(text(), 'ingest: uploading 0 B of 1.5 kB, 0 of 6 chunks\n')
})

t.test('a terminal gets a bar', async (t) => {
  const { stream, text } = openStream(true)
  const display = await showProgress(stream)
  for (const progress of [spooling, hashing, uploading]) display.show(progress)
  display.show({ ...uploading, bytesDone: 1500, chunksDone: 6 })
  display.end()
  t.match(text(), /reading .*10 B/)
  t.match(text(), /uploading .*[█░]{30} /)
})

t.test('an upload that fails at once leaves the terminal alone', async (t) => {
  const { stream, text } = openStream(true)
  const display = await showProgress(stream)
  display.end()
  t.equal(text(), '')
})
