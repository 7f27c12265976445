import t from 'tap'
import { createFirstSeen } from '../../src/files/rejected-report.ts'

t.test('an id is found where it was first, however many there are', async (t) => {
  const places = createFirstSeen(3)
  for (let i = 0; i < 10; i++) {
    t.equal(places.find(`e-${i}`), undefined)
    places.add(`e-${i}`, i + 1)
  }
  t.strictSame(
    Array.from({ length: 10 }, (_, i) => places.find(`e-${i}`)),
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
  )
  t.equal(places.find('e-10'), undefined)
})

t.test('look-alikes are different ids', async (t) => {
  const places = createFirstSeen()
  places.add('\u00e9', 1)
  t.equal(places.find('e\u0301'), undefined)
  t.equal(places.find('\u00e9 '), undefined)
  t.equal(places.find('\u00e9'), 1)
})
