import { linkSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { RejectedInput } from '@ingest/client'
import { digestOf, type MapContent } from '@ingest/core'
import t from 'tap'
import { checkContent, checkFile } from '../src/files/check-content.ts'
import { openInput } from '../src/files/open-input.ts'
import { type RejectedReport, withRejectedReport } from '../src/files/rejected-report.ts'
import { createIo } from './run-ingest.ts'

const bytes = Buffer.from('a map of several parts')
const never = new AbortController().signal

/** A map whose content is `read`. */
function contentOf(read: Buffer): MapContent {
  return {
    placeId: '1',
    buildId: 'b',
    digest: digestOf(bytes),
    size: bytes.length,
    contentType: 'text/plain',
    frozen: false,
    async *bytes() {
      for (let at = 0; at < read.length; at += 8) yield read.subarray(at, at + 8)
    },
  }
}

t.test('the bytes of a map are written in order, until their reader stops, and verified', async (t) => {
  const written: Uint8Array[] = []
  await checkContent(contentOf(bytes), never, async (piece) => written.push(piece) > 0)
  t.ok(Buffer.concat(written).equals(bytes))
  let count = 0
  await checkContent(contentOf(bytes), never, async () => ++count < 2)
  t.equal(count, 2)
  const others = [
    Buffer.from('b map of several parts'),
    bytes.subarray(1),
    Buffer.concat([bytes, bytes]),
    Buffer.alloc(0),
  ]
  const refused = { code: 'digest-mismatch', message: /^The content does not match/ }
  for (const other of others) await t.rejects(checkContent(contentOf(other), never), refused)
  const reason = new Error('no longer wanted')
  await t.rejects(checkContent(contentOf(bytes), AbortSignal.abort(reason)), reason)
})

t.test('a file is compared with a map', async (t) => {
  const directory = t.testdir({ same: bytes, other: 'something else' })
  await checkFile(contentOf(bytes), join(directory, 'same'), never)
  await t.rejects(checkFile(contentOf(bytes), join(directory, 'other'), never), { code: 'digest-mismatch' })
  await t.rejects(checkFile(contentOf(bytes), join(directory, 'none'), never), { code: 'invalid-argument' })
})

t.test('a file is read, and must not be the output under any name', async (t) => {
  const { io } = createIo()
  const directory = t.testdir({ 'events.ndjson': '{}\n', another: '' })
  const file = join(directory, 'events.ndjson')
  const { stream, size } = await openInput(io, file, join(directory, 'missing'))
  t.equal(size, 3)
  t.equal(await text(stream), '{}\n')
  const other = await openInput(io, file, join(directory, 'another'))
  t.equal(other.size, 3)
  other.stream.destroy()
  const link = join(directory, 'link')
  linkSync(file, link)
  for (const output of [file, link]) {
    await t.rejects(openInput(io, file, output), { code: 'invalid-argument', message: /is the input file/ })
  }
})

const rejected = (at: number, eventId: string | null = `e-${at}`): RejectedInput => ({
  at,
  eventId,
  issues: [
    { code: 'invalid_type', path: '/buildId', message: 'Expected a string.' },
    { code: 'too_deep', path: '', message: 'Too deep.' },
  ],
  event: Buffer.from('{ "big":12345678901234567890123 }'),
})

const fill = async (report: RejectedReport) => {
  await report.note([rejected(1), rejected(2, null)], 'lines')
  await report.note([rejected(0)], 'array')
}

t.test('rejected events are written to a file with their issues, byte for byte', async (t) => {
  const file = join(t.testdir({ rejected: 'of an earlier run' }), 'rejected')
  const { io, stderr } = createIo()
  const issues = JSON.stringify(rejected(1).issues)
  const lines = ['"line":1,"eventId":"e-1"', '"line":2,"eventId":null', '"index":0,"eventId":"e-0"'].map(
    (head) => `{${head},"issues":${issues},"event":{ "big":12345678901234567890123 }}\n`,
  )
  t.equal(await withRejectedReport(io, { rejected: file }, (report) => fill(report).then(() => 'done')), 'done')
  t.equal(readFileSync(file, 'utf8'), lines.join(''))
  await withRejectedReport(io, { rejected: file }, async () => {})
  t.equal(readFileSync(file, 'utf8'), '', 'empty if no event is rejected')
  const failing = withRejectedReport(io, { rejected: file }, async (report) => {
    await fill(report)
    throw new Error('its own')
  })
  await t.rejects(failing, { message: 'its own' })
  t.equal(readFileSync(file, 'utf8'), lines.join(''), 'a later failure keeps the file')
  const unwritable = withRejectedReport(io, { rejected: join(dirname(file), 'none', 'rejected') }, fill)
  await t.rejects(unwritable, { code: 'invalid-argument', message: /cannot be written/ })
  t.strictSame([stderr(), readdirSync(dirname(file))], ['', ['rejected']])
})

t.test('without a file, the first are printed unless --quiet, with control characters escaped', async (t) => {
  const fillMore = async (report: RejectedReport) => {
    await fill(report)
    await report.note([{ ...rejected(7), eventId: '\u001b[31m\u009b' }], 'lines')
    for (let at = 8; at < 12; at++) await report.note([rejected(at)], 'lines')
  }
  const { io, stderr } = createIo()
  await withRejectedReport(io, { quiet: true }, fillMore)
  t.equal(stderr(), '')
  await withRejectedReport(io, {}, fillMore)
  const issues = '/buildId: Expected a string. Too deep.'
  t.strictSame(stderr().split('\n'), [
    `ingest: line 1, e-1: ${issues}`,
    `ingest: line 2: ${issues}`,
    `ingest: element 0, e-0: ${issues}`,
    `ingest: line 7, \\u001b[31m\\u009b: ${issues}`,
    `ingest: line 8, e-8: ${issues}`,
    'ingest: … and 3 more',
    '',
  ])
})
