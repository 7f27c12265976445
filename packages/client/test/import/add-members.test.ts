import t from 'tap'
import { addMembers } from '../../src/import/serialize-event.ts'

const add = (text: string, members: object) =>
  addMembers(Buffer.from(text), JSON.parse(text), { ...members }).toString()

t.test('what is lacking is put in front, and all else stays', async (t) => {
  t.equal(add('{ "n": 1.0 }', { projectId: 'p', eventId: 'e' }), '{"projectId":"p","eventId":"e", "n": 1.0 }')
  t.equal(add('{"eventId":"x"}', { projectId: 'p', eventId: 'e' }), '{"projectId":"p","eventId":"x"}')
  t.equal(add('{ }', { eventId: 'e' }), '{"eventId":"e" }')
  t.equal(add('{"a":"{"}', { b: 1 }), '{"b":1,"a":"{"}')
})

t.test('a member that is there stays, whatever it holds and however it is spelled', async (t) => {
  for (const text of ['{"eventId":null}', '{"\\u0065ventId":7}', '{\n"eventId" : "x"}']) {
    t.equal(add(text, { eventId: 'e' }), text)
  }
})
