import t from 'tap'
import { createHeldEvents, eventsHeldMax, filterEvents, toHeldEvent } from '../../../page/views/live/held-events.ts'

let cursors = 0
const held = (event: object) => toHeldEvent({ cursor: `c${cursors++}`, receivedAt: 1, text: JSON.stringify(event) })

t.test('the last thousand events are held, and the names of all that arrived', async (t) => {
  const events = createHeldEvents()
  events.add([held({ eventId: 'first', type: 'old', buildId: 'b1' })])
  events.add(Array.from({ length: eventsHeldMax + 5 }, (_, i) => held({ eventId: `e${i}`, type: 'new' })))
  t.equal(events.events.length, eventsHeldMax)
  t.equal(events.events[0]?.eventId, 'e5')
  t.equal(events.events.at(-1)?.eventId, `e${eventsHeldMax + 4}`)
  t.strictSame([...events.types], ['old', 'new'])
  t.strictSame([...events.buildIds], ['b1', ''])
})

t.test('fewer large events are held', async (t) => {
  const events = createHeldEvents()
  for (let i = 0; i < 50; i++) events.add([held({ eventId: `e${i}`, filler: 'x'.repeat(200_000) })])
  t.equal(events.events.length, 20)
  t.equal(events.events.at(-1)?.eventId, 'e49')
})

t.test('filters match together, newest first', async (t) => {
  const events = [
    held({ eventId: '1', type: 'shot', buildId: 'b1', note: 'Hello (x)' }),
    held({ eventId: '2', type: 'shot', buildId: 'b2' }),
    held({ eventId: '3', type: null }),
    held({ eventId: '4', type: 'shot', buildId: 'b1', note: 'HELLO' }),
  ]
  const find = (filter: object) => filterEvents(events, { text: '', ...filter }).map(({ eventId }) => eventId)
  t.strictSame(find({}), ['4', '3', '2', '1'])
  t.strictSame(find({ type: 'shot' }), ['4', '2', '1'])
  t.strictSame(find({ type: '' }), ['3'], 'events without a type')
  t.strictSame(find({ type: 'shot', buildId: 'b1' }), ['4', '1'])
  t.strictSame(find({ text: 'hello' }), ['4', '1'], 'whatever the case')
  t.strictSame(find({ text: '(x)' }), ['1'], 'not a pattern')
  t.strictSame(find({ text: 'b.' }), [])
})
