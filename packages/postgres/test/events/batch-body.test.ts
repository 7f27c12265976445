import fc from 'fast-check'
import t from 'tap'
import { joinEvents, splitEvents } from '../../src/events/batch-body.ts'

/** A batch as it was received: events between other bytes. */
function bodyOf(texts: readonly string[]) {
  const parts: Buffer[] = []
  let at = 0
  const rows = texts.map((text) => {
    const before = Buffer.from(', \n')
    const bytes = Buffer.from(text)
    parts.push(before, bytes)
    at += before.length + bytes.length
    return { start: at - bytes.length, end: at }
  })
  return { body: Buffer.concat([...parts, Buffer.from(']}')]), rows }
}

t.test('events are split where they were joined, byte for byte', async () => {
  const text = fc.json().filter((json) => json !== '')
  fc.assert(
    fc.property(fc.array(text, { minLength: 1, maxLength: 5 }), (texts) => {
      const { body, rows } = bodyOf(texts)
      const events = splitEvents(joinEvents(body, rows).toString())
      const expected = texts.map((each, index) => ({ index, bytes: Buffer.from(each) }))
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
  const { body, rows } = bodyOf(['"\\u001e"', '"é\u2028"'])
  t.strictSame(
    splitEvents(joinEvents(body, rows).toString()).map(({ bytes }) => String(bytes)),
    ['"\\u001e"', '"é\u2028"'],
  )
})
