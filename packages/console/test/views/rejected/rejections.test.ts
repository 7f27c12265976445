import t from 'tap'
import type { RecentRejection } from '../../../page/api/bodies.ts'
import { isInGroup, keyRejections } from '../../../page/views/rejected/rejections.ts'

const rejectionAt = (path: string): RecentRejection => ({
  receivedAt: '2026-11-20T17:51:00.250Z',
  index: 3,
  eventId: 'e-1',
  issues: [
    { code: 'required', path: '/eventId', message: 'Every event needs an eventId.' },
    { code: 'invalid_type', path, message: 'Expected a string.' },
  ],
})

t.test('an event is in the group of each of its issues, whatever the array index', async (t) => {
  const isIn = (code: string, path: string) => isInGroup(rejectionAt('/visits/12/place'), { code, path })
  t.equal(isIn('invalid_type', '/visits/*/place'), true)
  t.equal(isIn('required', '/eventId'), true)
  t.equal(isIn('required', '/visits/*/place'), false)
  t.equal(isInGroup(rejectionAt('/2'), { code: 'invalid_type', path: '/*' }), true)
  t.equal(isInGroup(rejectionAt('/a1/01'), { code: 'invalid_type', path: '/a1/01' }), true, 'names of members')
})

t.test('each event keeps its key when others arrive, also one that was sent twice within a millisecond', async (t) => {
  const older = [rejectionAt('/a'), rejectionAt('/a')]
  const before = keyRejections(older).map(({ key }) => key)
  t.equal(new Set(before).size, 2)
  const after = keyRejections([rejectionAt('/a'), { ...rejectionAt('/a'), index: 4 }, ...older])
  t.equal(new Set(after.map(({ key }) => key)).size, 4)
  t.same(
    after.slice(2).map(({ key }) => key),
    before,
  )
})
