import t from 'tap'
import { serializeEvent } from '../src/serialize-event.ts'

const serialize = (event: never) => {
  const { eventId, bytes } = serializeEvent(event, 'game-1', () => 'made')
  return [eventId, bytes.toString()]
}
const fromText = (text: string) => serialize(Buffer.from(text) as never)

t.test('what an event lacks is put in front', async (t) => {
  t.strictSame(serialize({ type: 'a' } as never), ['made', '{"projectId":"game-1","eventId":"made","type":"a"}'])
  t.strictSame(serialize({ eventId: 'e', type: 'é' } as never), [
    'e',
    '{"projectId":"game-1","eventId":"e","type":"é"}',
  ])
  t.strictSame(serialize({ eventId: undefined, projectId: 'other' } as never), [
    'made',
    '{"projectId":"other","eventId":"made"}',
  ])
})

t.test('an event that comes as bytes is kept as it is, in one line', async (t) => {
  const whole = '{ "eventId" : "e",\r\n "projectId":"p", "n": 12345678901234567890.0, "s":"\\n" }'
  t.strictSame(fromText(whole), ['e', whole.replace('\r\n', '  ')])
  t.strictSame(fromText(' { "n":1 }'), ['made', '{"projectId":"game-1","eventId":"made", "n":1 }'])
  t.strictSame(fromText('{"eventId":"e"}'), ['e', '{"projectId":"game-1","eventId":"e"}'])
  t.strictSame(fromText('\ufeff{ }'), ['made', '{"projectId":"game-1","eventId":"made" }'])
  const { bytes } = serializeEvent(Buffer.from(' {"a":"{"}'), 'p', () => 'e')
  t.strictSame(JSON.parse(bytes.toString()), { projectId: 'p', eventId: 'e', a: '{' })
})

t.test('the bytes that were given are not changed', async (t) => {
  const given = Buffer.from('{"eventId":"e",\n"projectId":"p"}')
  const copy = Buffer.from(given)
  const { bytes } = serializeEvent(given, 'p', () => '')
  t.ok(given.equals(copy))
  given.fill(0)
  t.match(bytes.toString(), 'eventId')
})

t.test('what can never be an event is refused', async (t) => {
  const circle: Record<string, unknown> = {}
  circle.circle = circle
  for (const event of [null, undefined, 'a', 1, [], { n: 1n }, circle]) {
    t.throws(() => serialize(event as never), { code: 'invalid-argument' })
  }
  for (const eventId of ['', 7, null, 'a\n', '\ud800', 'é'.repeat(129)]) {
    t.throws(() => serialize({ eventId } as never), { code: 'invalid-argument', issues: [{ path: '/eventId' }] })
  }
  t.throws(() => fromText('{"eventId":7}'), { code: 'invalid-argument', issues: [{ path: '/eventId' }] })
  t.throws(() => fromText('[1]'), { code: 'invalid-argument' })
  for (const text of ['', '{', '{}{}']) t.throws(() => fromText(text), { code: 'malformed-body' })
  t.throws(() => serialize(Buffer.from([0x7b, 0xff, 0x7d]) as never), { code: 'malformed-body' })
})
