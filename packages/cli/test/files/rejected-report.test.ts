import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { RejectedInput } from '@ingest/client'
import t from 'tap'
import { type RejectedReport, withRejectedReport } from '../../src/files/rejected-report.ts'
import { createIo } from '../run-ingest.ts'

const event = (at: number, eventId: string | null = `e-${at}`): RejectedInput => ({
  at,
  eventId,
  issues: [
    { code: 'invalid_type', path: '/buildId', message: 'Expected a string.' },
    { code: 'too_deep', path: '', message: 'Too deep.' },
  ],
  event: Buffer.from('{ "big":12345678901234567890123 }'),
})

const fill = async (report: RejectedReport) => {
  await report.note([event(1), event(2, null)], 'lines')
  await report.note([event(0)], 'array')
}

t.test('rejected events are written to a file with their issues, byte for byte', async (t) => {
  const directory = t.testdir()
  const file = join(directory, 'rejected.ndjson')
  const { io, stderr } = createIo()
  t.equal(await withRejectedReport(io, { rejected: file }, (report) => fill(report).then(() => 'done')), 'done')
  const issues = JSON.stringify(event(1).issues)
  t.equal(
    readFileSync(file, 'utf8'),
    [
      `{"line":1,"eventId":"e-1","issues":${issues},"event":{ "big":12345678901234567890123 }}\n`,
      `{"line":2,"eventId":null,"issues":${issues},"event":{ "big":12345678901234567890123 }}\n`,
      `{"index":0,"eventId":"e-0","issues":${issues},"event":{ "big":12345678901234567890123 }}\n`,
    ].join(''),
  )
  t.equal(stderr(), '')
})

t.test('the file is empty if no event is rejected', async (t) => {
  const { io } = createIo()
  const file = join(t.testdir({ rejected: 'of an earlier run' }), 'rejected')
  await withRejectedReport(io, { rejected: file }, async () => {})
  t.equal(readFileSync(file, 'utf8'), '')
})

t.test('a later failure keeps the file', async (t) => {
  const { io } = createIo()
  const file = join(t.testdir(), 'rejected')
  const work = withRejectedReport(io, { rejected: file }, async (report) => {
    await fill(report)
    throw new Error('its own')
  })
  await t.rejects(work, { message: 'its own' })
  t.equal(readFileSync(file, 'utf8').split('\n').length, 4)
})

t.test('an unwritable file is refused, and leaves nothing', async (t) => {
  const { io } = createIo()
  const directory = t.testdir()
  const none = join(directory, 'none', 'rejected')
  await t.rejects(withRejectedReport(io, { rejected: none }, fill), {
    code: 'invalid-argument',
    message: /cannot be written/,
  })
  t.strictSame(readdirSync(directory), [])
})

t.test('without a file, the first are printed, with control characters escaped', async (t) => {
  const { io, stderr } = createIo()
  await withRejectedReport(io, {}, async (report) => {
    await fill(report)
    await report.note([{ ...event(7), eventId: '\u001b[31m\u009b' }], 'lines')
    for (let at = 8; at < 12; at++) await report.note([event(at)], 'lines')
  })
  t.equal(
    stderr(),
    [
      'ingest: line 1, e-1: /buildId: Expected a string. Too deep.',
      'ingest: line 2: /buildId: Expected a string. Too deep.',
      'ingest: element 0, e-0: /buildId: Expected a string. Too deep.',
      'ingest: line 7, \\u001b[31m\\u009b: /buildId: Expected a string. Too deep.',
      'ingest: line 8, e-8: /buildId: Expected a string. Too deep.',
      'ingest: … and 3 more',
      '',
    ].join('\n'),
  )
})

t.test('--quiet prints none', async (t) => {
  const { io, stderr } = createIo()
  await withRejectedReport(io, { quiet: true }, fill)
  t.equal(stderr(), '')
})
