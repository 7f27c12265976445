import t from 'tap'
import { batchesInFlightMax, batchPlaces, createPlaces, projectInFlightMax } from '../../src/limits/concurrency.ts'

const overloaded = { code: 'overloaded', retryAfterSeconds: 1 }

t.test('one project takes a part of the places, and leaves room for others', async (t) => {
  const places = createPlaces(batchPlaces)
  const leave = Array.from({ length: projectInFlightMax }, () => places.enter('busy'))
  t.throws(() => places.enter('busy'), overloaded)
  places.enter('other')
  leave.pop()?.()
  places.enter('busy')
  t.throws(() => places.enter('busy'), overloaded)
})

t.test('all projects together take all places and no more, and get back what is given back', async (t) => {
  const places = createPlaces(batchPlaces)
  const leave = Array.from({ length: batchesInFlightMax }, (_, i) => places.enter(`p-${i}`))
  t.throws(() => places.enter('late'), overloaded)
  for (const each of leave) each()
  for (let i = 0; i < batchesInFlightMax; i++) places.enter(`q-${i}`)
  t.throws(() => places.enter('late'), overloaded)
})

t.test('a place is given back once, however often', async (t) => {
  const places = createPlaces({ what: 'uploads', max: 2, projectMax: 2 })
  const leave = places.enter('p')
  places.enter('p')
  leave()
  leave()
  places.enter('p')
  t.throws(() => places.enter('p'), { code: 'overloaded', message: /uploads/ })
})
