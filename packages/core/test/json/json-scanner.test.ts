import t from 'tap'
import { sliceMember } from '../../src/json/json-scanner.ts'
import { sliceEvents } from './slice-events.ts'

function slicesOf(body: string): string[] {
  const bytes = Buffer.from(body)
  return sliceEvents(bytes).map(({ start, end }) => bytes.subarray(start, end).toString())
}

t.test('each element is found without the space around it', async (t) => {
  t.strictSame(slicesOf('{"events":[{"a":1},{"b":2}]}'), ['{"a":1}', '{"b":2}'])
  t.strictSame(slicesOf(' {\t"events" \n: [ \r{ "a" : 1 } , 2\n] } '), ['{ "a" : 1 }', '2'])
})

t.test('an empty array has no slices', async (t) => {
  t.strictSame(slicesOf('{"events":[]}'), [])
  t.strictSame(slicesOf('{"events":[ \n]}'), [])
})

t.test('elements may be of any kind', async (t) => {
  const elements = ['1', '-1.5e-3', '"a"', 'null', 'true', 'false', '[]', '{}', '[[1],{"a":[]}]', '""']
  t.strictSame(slicesOf(`{"events":[${elements}]}`), elements)
  t.strictSame(slicesOf(`{"events":[${elements.join(' , ')} ]}`), elements)
})

t.test('brackets, commas and quotes in strings do not end an element', async (t) => {
  const elements = ['{"a":"}]"}', '{"]":"\\"}"}', '"\\\\"', '{"\\\\":"\\\\\\"]"}', '"[{,:"', '"\\u0022]"']
  t.strictSame(slicesOf(`{"events":[${elements}]}`), elements)
})

t.test('the last of several members called events wins, with escapes or without', async (t) => {
  t.strictSame(slicesOf('{"events":[1],"events":[2,3]}'), ['2', '3'])
  t.strictSame(slicesOf('{"events":[1],"\\u0065vents":[2]}'), ['2'])
  t.strictSame(slicesOf('{"\\u0065\\u0076ents":[1],"events":[2]}'), ['2'])
  t.strictSame(slicesOf('{"events":5,"events":[1],"Events":[2],"events ":[3],"event":[4]}'), ['1'])
})

t.test('sliceMember returns the exact bytes of the last member of a name', async (t) => {
  const object = Buffer.from(' { "a" : {"b":1} , "b":[ 1 ] , "\\u0061" : "}," , "c" : -1.0 } ')
  const memberOf = (name: string) => sliceMember(object, name)?.toString()
  t.strictSame(['a', 'b', 'c', 'd'].map(memberOf), ['"},"', '[ 1 ]', '-1.0', undefined])
  t.equal(sliceMember(Buffer.from('{ }'), 'a'), undefined)
})

t.test('events inside other members are not sliced', async (t) => {
  t.strictSame(slicesOf('{"a":{"events":[1]},"b":[{"events":[2]}],"events":[3],"c":{"events":[4]}}'), ['3'])
  t.strictSame(slicesOf('{"a":"\\"events\\":[1]","events":[{"events":[2]}]}'), ['{"events":[2]}'])
})

t.test('positions count from the start of a part of a larger buffer', async (t) => {
  const larger = Buffer.from('xx{"\\u0065vents":["é",1]}yy')
  const body = larger.subarray(2, larger.length - 2)
  t.strictSame(
    sliceEvents(body).map(({ start, end }) => body.toString('utf8', start, end)),
    ['"é"', '1'],
  )
})

t.test('deep nesting does not exhaust the stack', async (t) => {
  const deep = '['.repeat(100_000) + ']'.repeat(100_000)
  t.equal(slicesOf(`{"a":${deep},"events":[${deep}]}`)[0]?.length, deep.length)
})
