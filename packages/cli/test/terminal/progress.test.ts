import { PassThrough } from 'node:stream'
import t from 'tap'
import { createProgressDisplay, createProgressLines, toEventsProgress } from '../../src/terminal/progress.ts'

const reading = { label: 'reading', done: 10, total: null, text: '10 B', isAnnounced: false }
const hashing = { label: 'hashing', done: 500, total: 2000, text: '500 B of 2.0 kB', isAnnounced: false }
const uploading = { label: 'uploading', done: 0, total: 1500, text: '0 B of 1.5 kB', isAnnounced: true }

/** A stream that is, or is not, a terminal, and what was written to it. */
function openStream(isTTY: boolean) {
  const stream = Object.assign(new PassThrough(), { isTTY, columns: 100, rows: 20, cursorTo() {}, clearLine() {} })
  const written: string[] = []
  stream.on('data', (text) => written.push(String(text)))
  return { stream: stream as unknown as NodeJS.WriteStream, text: () => written.join('') }
}

t.test('a log gets a line for each announced phase, and then one every 5 seconds', async (t) => {
  const written: string[] = []
  let now = 0
  const display = createProgressLines({ write: (text: unknown) => written.push(String(text)) > 0 }, () => now)
  display.show(reading)
  display.show(hashing)
  t.strictSame(written, [])
  now = 5000
  display.show(hashing)
  t.strictSame(written.splice(0), ['ingest: hashing 500 B of 2.0 kB\n'])
  now = 5001
  display.show(uploading)
  display.show({ ...uploading, done: 250, text: '250 B' })
  now = 10_000
  display.show({ ...uploading, done: 500, text: '500 B' })
  now = 10_001
  display.show({ ...uploading, done: 750, text: '750 B' })
  display.end()
  t.strictSame(written, ['ingest: uploading 0 B of 1.5 kB\n', 'ingest: uploading 750 B\n'])
})

t.test('a pipe gets lines without control characters', async (t) => {
  const { stream, text } = openStream(false)
  const display = await createProgressDisplay(stream)
  for (const progress of [reading, hashing, uploading]) display.show(progress)
  display.end()
  t.equal(text(), 'ingest: uploading 0 B of 1.5 kB\n')
})

t.test('a terminal gets a bar', async (t) => {
  const { stream, text } = openStream(true)
  const display = await createProgressDisplay(stream)
  for (const progress of [reading, hashing, uploading]) display.show(progress)
  display.show({ ...uploading, done: 1500, text: '1.5 kB' })
  display.end()
  t.match(text(), /reading .*10 B/)
  t.match(text(), /uploading .*[█░]{30} /)
})

t.test('an immediate failure leaves the terminal unchanged', async (t) => {
  const { stream, text } = openStream(true)
  const display = await createProgressDisplay(stream)
  display.end()
  t.equal(text(), '')
})

t.test('it has the amount read and the number of rejected events', async (t) => {
  const tally = { bytes: 1500, events: 12, rejected: 0 }
  t.strictSame(toEventsProgress('sending', tally, 3000), {
    label: 'sending',
    done: 1500,
    total: 3000,
    text: '1.5 kB of 3.0 kB, 12 events',
    isAnnounced: false,
  })
  t.match(toEventsProgress('sending', { ...tally, rejected: 2 }, null), {
    total: null,
    text: '1.5 kB, 12 events, 2 rejected',
  })
})
