import t from 'tap'
import { issuesMax, pointer } from '../src/validation.ts'

t.test('a pointer grows step by step', async (t) => {
  t.equal(pointer('', 'a'), '/a')
  t.equal(pointer('/a', 0), '/a/0')
  t.equal(pointer('/a', ''), '/a/')
})

t.test('a step is escaped as RFC 6901 says, the tilde first', async (t) => {
  t.equal(pointer('', 'a/b'), '/a~1b')
  t.equal(pointer('', 'm~n'), '/m~0n')
  t.equal(pointer('', '~1'), '/~01')
  t.equal(pointer('/x~1y', '/~/'), '/x~1y/~1~0~1')
})

t.test('an event has at most 20 issues', async (t) => {
  t.equal(issuesMax, 20)
})
