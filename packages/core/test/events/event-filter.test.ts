import fc from 'fast-check'
import t from 'tap'
import { compileEventFilter, type EventFilter } from '../../src/events/read-events.ts'

const wants = (filter: EventFilter, text: string) => compileEventFilter(filter)?.(Buffer.from(text))

t.test('without anything to look for there is no filter', async (t) => {
  t.equal(compileEventFilter({}), undefined)
})

t.test('each member that is named has to be exactly that', async (t) => {
  const text = '{"projectId":"p","eventId":"e","type":"kill","buildId":"b1"}'
  t.equal(wants({ type: 'kill' }, text), true)
  t.equal(wants({ buildId: 'b1' }, text), true)
  t.equal(wants({ type: 'kill', buildId: 'b1' }, text), true)
  t.equal(wants({ type: 'kill', buildId: 'b2' }, text), false)
  for (const type of ['Kill', 'kil', 'kill ', 'b1', 'e']) t.equal(wants({ type }, text), false, type)
})

t.test('what is written otherwise, stands elsewhere, or comes again is told from what is meant', async (t) => {
  t.equal(wants({ type: 'kill' }, '{"ty\\u0070e":"\\u006bill"}'), true)
  t.equal(wants({ type: 'a/"é' }, '{"type":"a\\/\\"\\u00e9"}'), true)
  t.equal(wants({ type: 'kill' }, '{"a":"kill","b":{"type":"kill"},"c":"\\"type\\":\\"kill\\""}'), false)
  t.equal(wants({ type: 'kill' }, '{"type":"kill","type":"other"}'), false)
  t.equal(wants({ type: 'kill' }, '{"type":"other","type":"kill"}'), true)
  t.equal(wants({ type: 'kill' }, '{"__proto__":{"type":"kill"}}'), false)
  t.equal(wants({ type: '5' }, '{"type":5}'), false)
})

t.test('an event may be a part of a larger array', async (t) => {
  const bytes = new Uint8Array(Buffer.from('"kill"{"type":"x"}"kill"'))
  const isWanted = compileEventFilter({ type: 'kill' })
  t.equal(isWanted?.(bytes.subarray(6, -6)), false)
})

t.test('whatever is looked for, the answer is that of the parsed event', async (t) => {
  const text = fc.oneof(fc.constantFrom('a', 'b"', '\\', 'é', '\ud800', ''), fc.string())
  fc.assert(
    fc.property(text, text, fc.boolean(), (wanted, actual, isEscaped) => {
      const json = JSON.stringify({ type: actual })
      const written = isEscaped ? json.replace('type', '\\u0074ype') : json
      t.equal(wants({ type: wanted }, written), wanted === JSON.parse(json).type)
    }),
  )
})
