import t from 'tap'
import { concurrencyLimits, createConcurrencyLimit } from '../../src/limits/concurrency.ts'

const overloaded = { code: 'overloaded', retryAfterSeconds: 1 }

t.test('one project takes a part of the slots and leaves the rest to others', async (t) => {
  const limit = createConcurrencyLimit(concurrencyLimits.batches)
  const release = Array.from({ length: concurrencyLimits.batches.projectMax }, () => limit.acquire('busy'))
  t.throws(() => limit.acquire('busy'), overloaded)
  limit.acquire('other')
  release.pop()?.()
  limit.acquire('busy')
  t.throws(() => limit.acquire('busy'), overloaded)
})

t.test('all projects together take every slot and no more, and released slots are taken again', async (t) => {
  const limit = createConcurrencyLimit(concurrencyLimits.batches)
  const release = Array.from({ length: concurrencyLimits.batches.max }, (_, i) => limit.acquire(`p-${i}`))
  t.throws(() => limit.acquire('late'), overloaded)
  for (const each of release) each()
  for (let i = 0; i < concurrencyLimits.batches.max; i++) limit.acquire(`q-${i}`)
  t.throws(() => limit.acquire('late'), overloaded)
})

t.test('a slot is released once, however often its release is called', async (t) => {
  const limit = createConcurrencyLimit({ what: 'uploads', max: 2, projectMax: 2 })
  const release = limit.acquire('p')
  limit.acquire('p')
  release()
  release()
  limit.acquire('p')
  t.throws(() => limit.acquire('p'), { code: 'overloaded', message: /uploads/ })
})
