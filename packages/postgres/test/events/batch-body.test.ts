import { encodeEvents } from '@ingest/core/internal'
import fc from 'fast-check'
import t from 'tap'
import { joinedBytes, splitEvents, writeEvents } from '../../src/events/batch-body.ts'

/** Events of a batch as it was received, each behind some other bytes, joined. */
function joined(events: readonly { before: string; text: string }[]): string {
  const parts: Buffer[] = []
  let at = 0
  const slices = events.map(({ before, text }) => {
    const [other, bytes] = [Buffer.from(before), Buffer.from(text)]
    parts.push(other, bytes)
    at += other.length + bytes.length
    return { eventId: '', start: at - bytes.length, end: at, idStart: 0, idEnd: 0 }
  })
  const body = Buffer.concat([...parts, Buffer.from(']}')])
  const rows = encodeEvents(slices, Buffer.alloc(16))
  const out = Buffer.alloc(joinedBytes(rows) + 2, '#')
  const end = writeEvents(out, 1, body, rows)
  if (end !== out.length - 1 || out[0] !== 0x23 || out[end] !== 0x23) throw new Error('bytes beside it were written')
  return out.toString('utf8', 1, end)
}

t.test('events are split where they were joined, byte for byte', async () => {
  // of compact JSON, of other JSON, and behind an invalid event
  const before = fc.constantFrom(',', ', \n', ',null,')
  const event = fc.record({ before, text: fc.json().filter((json) => json !== '') })
  fc.assert(
    fc.property(fc.array(event, { minLength: 1, maxLength: 5 }), (given) => {
      const events = splitEvents(joined(given))
      const expected = given.map(({ text }, index) => ({ index, bytes: Buffer.from(text) }))
      return JSON.stringify(events) === JSON.stringify(expected)
    }),
  )
})

t.test('events that were known before are empty and keep their index', async (t) => {
  const indexes = (text: string) => splitEvents(text).map(({ index, bytes }) => `${index}:${bytes}`)
  t.strictSame(indexes('{}\x1e{"a":1}'), ['0:{}', '1:{"a":1}'])
  t.strictSame(indexes('\x1e{}'), ['1:{}'])
  t.strictSame(indexes('{}\x1e\x1e\x1e[]\x1e'), ['0:{}', '3:[]'])
  t.strictSame(indexes(''), [])
})

t.test('an escaped separator is a part of its event', async (t) => {
  const texts = ['"\\u001e"', '"é\u2028"']
  t.strictSame(
    splitEvents(joined(texts.map((text) => ({ before: ',', text })))).map(({ bytes }) => String(bytes)),
    texts,
  )
})
