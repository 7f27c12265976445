import fc from 'fast-check'
import t from 'tap'
import { asText, sliceEvents } from '../src/slice-events.ts'

function slicesOf(body: string): string[] {
  const bytes = Buffer.from(body)
  return sliceEvents(bytes).map(({ start, end }) => bytes.subarray(start, end).toString())
}

t.test('each element is found without the space around it', async (t) => {
  t.strictSame(slicesOf('{"events":[{"a":1},{"b":2}]}'), ['{"a":1}', '{"b":2}'])
  t.strictSame(slicesOf(' {\t"events" \n: [ \r{ "a" : 1 } , 2\n] } '), ['{ "a" : 1 }', '2'])
})

t.test('no elements give no slices', async (t) => {
  t.strictSame(slicesOf('{"events":[]}'), [])
  t.strictSame(slicesOf('{"events":[ \n]}'), [])
})

t.test('elements may be of any kind', async (t) => {
  const elements = ['1', '-1.5e-3', '"a"', 'null', 'true', 'false', '[]', '{}', '[[1],{"a":[]}]', '""']
  t.strictSame(slicesOf(`{"events":[${elements}]}`), elements)
  t.strictSame(slicesOf(`{"events":[${elements.join(' , ')} ]}`), elements)
})

t.test('brackets, commas and quotes in strings are text', async (t) => {
  const elements = ['{"a":"}]"}', '{"]":"\\"}"}', '"\\\\"', '{"\\\\":"\\\\\\"]"}', '"[{,:"', '"\\u0022]"']
  t.strictSame(slicesOf(`{"events":[${elements}]}`), elements)
})

t.test('the last of several members called events wins, however it is spelled', async (t) => {
  t.strictSame(slicesOf('{"events":[1],"events":[2,3]}'), ['2', '3'])
  t.strictSame(slicesOf('{"events":[1],"\\u0065vents":[2]}'), ['2'])
  t.strictSame(slicesOf('{"\\u0065\\u0076ents":[1],"events":[2]}'), ['2'])
  t.strictSame(slicesOf('{"events":5,"events":[1],"Events":[2],"events ":[3],"event":[4]}'), ['1'])
})

t.test('events inside other members are none of the batch', async (t) => {
  t.strictSame(slicesOf('{"a":{"events":[1]},"b":[{"events":[2]}],"events":[3],"c":{"events":[4]}}'), ['3'])
  t.strictSame(slicesOf('{"a":"\\"events\\":[1]","events":[{"events":[2]}]}'), ['{"events":[2]}'])
})

t.test('positions count from the start of a part of a larger buffer', async (t) => {
  const larger = Buffer.from('xx{"\\u0065vents":["é",1]}yy')
  const body = larger.subarray(2, larger.length - 2)
  t.strictSame(
    sliceEvents(body).map(({ start, end }) => asText(body, start, end)),
    ['"é"', '1'],
  )
})

t.test('deep nesting takes no stack', async (t) => {
  const deep = '['.repeat(100_000) + ']'.repeat(100_000)
  t.equal(slicesOf(`{"a":${deep},"events":[${deep}]}`)[0]?.length, deep.length)
})

// JSON as text, with every way to write it that the grammar of RFC 8259 has
const space = fc.string({ unit: fc.constantFrom(' ', '\t', '\n', '\r'), maxLength: 2 })
const unit = fc.oneof(
  fc
    .string({ unit: 'grapheme', minLength: 1, maxLength: 1 })
    .map((character) => JSON.stringify(character).slice(1, -1)),
  fc.constantFrom('\\"', '\\\\', '\\/', '\\b', '\\f', '\\n', '\\r', '\\t', '[', ']', '{', '}', ',', ':', ' ', '\u007f'),
  fc.nat(0xffff).map((code) => `\\u${code.toString(16).padStart(4, '0')}`),
)
const string = fc.array(unit, { maxLength: 5 }).map((units) => `"${units.join('')}"`)
const number = fc
  .tuple(
    fc.constantFrom('', '-'),
    fc.bigInt({ min: 0n, max: 10n ** 30n }),
    fc.constantFrom('', '.0', '.25'),
    fc.constantFrom('', 'e5', 'E-7', 'e+400'),
  )
  .map((parts) => parts.join(''))
const spaced = (text: fc.Arbitrary<string>) => fc.tuple(space, text, space).map((parts) => parts.join(''))
const list = (value: fc.Arbitrary<string>) => fc.array(spaced(value), { maxLength: 3 })
const member = (key: fc.Arbitrary<string>, value: fc.Arbitrary<string>) =>
  fc.tuple(spaced(key), spaced(value)).map(([name, each]) => `${name}:${each}`)
const { value } = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom('null', 'true', 'false', '[]', '{}'),
    number,
    string,
    list(tie('value')).map((values) => `[${values}]`),
    fc.array(member(string, tie('value')), { maxLength: 3 }).map((members) => `{${members}}`),
  ),
}))

const eventsKey = fc
  .tuple(...Array.from('events', (c) => fc.constantFrom(c, `\\u00${c.charCodeAt(0).toString(16)}`)))
  .map((characters) => `"${characters.join('')}"`)
const otherKey = fc
  .oneof(string, fc.constantFrom('"event"', '"Events"', '"events "', '"\\"events"', '"__proto__"', '""'))
  .filter((key) => JSON.parse(key) !== 'events')
const others = fc.array(member(otherKey, value), { maxLength: 3 })
const lost = fc.array(member(eventsKey, value), { maxLength: 2 })
const elements = fc.array(fc.tuple(space, value, space), { maxLength: 4 })

t.test('in any envelope, each slice is exactly the bytes of one element', async (t) => {
  fc.assert(
    fc.property(fc.tuple(space, others, lost, others, eventsKey, elements, others, space), (parts) => {
      const [before, some, shadowed, more, key, events, rest, after] = parts
      const last = `${key}:[${events.map((each) => each.join(''))}]`
      const body = `${before}{${[...some, ...shadowed, ...more, last, ...rest]}}${after}`
      const slices = slicesOf(body)
      const expected = events.map(([, text]) => text)
      const parsed = (JSON.parse(body) as { events: unknown[] }).events
      return (
        JSON.stringify(slices) === JSON.stringify(expected) &&
        JSON.stringify(slices.map((slice) => JSON.parse(slice))) === JSON.stringify(parsed)
      )
    }),
    { numRuns: 2_000 },
  )
  t.pass('2,000 envelopes')
})
