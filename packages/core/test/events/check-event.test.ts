import t from 'tap'
import { checkEvent } from '../../src/events/classify-events.ts'

t.test('the bytes of an event are checked as they are', async (t) => {
  const deep = `${'['.repeat(32)}${']'.repeat(32)}`
  const bytes = Buffer.from(`{"projectId":"p","eventId":"e","d":${deep},"d":1}`)
  t.match(checkEvent('p', bytes), { eventId: 'e', isIdentified: true, issues: [{ code: 'too_deep' }] })
})

t.test('an event that would be stored has no issues', async (t) => {
  const event = { projectId: 'p', eventId: 'e', buildId: 'b', anything: [1] }
  t.strictSame(checkEvent('p', event), { eventId: 'e', isIdentified: true, issues: [] })
})

t.test('one with a fault in a member that is known can still be looked up', async (t) => {
  t.match(checkEvent('p', { projectId: 'p', eventId: 'e', buildId: 7 }), {
    eventId: 'e',
    isIdentified: true,
    issues: [{ code: 'invalid_type', path: '/buildId' }],
  })
})

t.test('one without an identity cannot', async (t) => {
  t.match(checkEvent('p', { projectId: 'other', eventId: 'e' }), {
    eventId: 'e',
    isIdentified: false,
    issues: [{ code: 'project_mismatch' }],
  })
  t.match(checkEvent('p', { projectId: 'p' }), { eventId: null, isIdentified: false, issues: [{ code: 'required' }] })
  t.match(checkEvent('p', 5), { eventId: null, isIdentified: false, issues: [{ code: 'not_object' }] })
})
