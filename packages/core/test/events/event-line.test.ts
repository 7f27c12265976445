import t from 'tap'
import { eventLine } from '../../src/events/event-line.ts'

const line = (event: string, cursor = 'c') =>
  eventLine({ cursor, receivedAt: 1_000, bytes: Buffer.from(event) }).toString()

t.test('a line is JSON with the cursor, the time and the bytes of the event, and a line feed', async (t) => {
  const event = '{"eventId" : "a","n":12345678901234567890,"a":1,"a":2}'
  t.equal(line(event, '1-2'), `{"cursor":"1-2","receivedAt":1000,"event":${event}}\n`)
})

t.test('a cursor may hold whatever a string can', async (t) => {
  t.equal(JSON.parse(line('{}', '"\\\n')).cursor, '"\\\n')
})

t.test('a line break between tokens becomes a space, so that an event is one line', async (t) => {
  t.equal(line('{\r\n\t"a":\n1}'), '{"cursor":"c","receivedAt":1000,"event":{  \t"a": 1}}\n')
  t.same(JSON.parse(line('{"text":"\\n\\r","é":"\u2028"}')).event, { text: '\n\r', é: '\u2028' })
})

t.test('the stored bytes are not touched', async (t) => {
  const bytes = Buffer.from('{\n}')
  eventLine({ cursor: 'c', receivedAt: 1_000, bytes })
  t.equal(bytes.toString(), '{\n}')
})
