import { getEventListeners } from 'node:events'
import t from 'tap'
import { createArrivals } from '../../src/events/event-notifier.ts'

/** Longer than any test: whoever waits for so long was not woken. */
const forEver = 2 ** 30

/** Resolves to what has happened first: the wait, or some turns of the event loop. */
function settles(wait: Promise<void>): Promise<'woken' | 'waits'> {
  const turns = new Promise<'waits'>((resolve) => setImmediate(() => setImmediate(resolve, 'waits')))
  return Promise.race([wait.then(() => 'woken' as const), turns])
}

t.test('all who wait for a project are woken, and nobody else', async (t) => {
  const arrivals = createArrivals()
  const [a, b, other] = [arrivals.watch('p'), arrivals.watch('p'), arrivals.watch('q')]
  const waits = [a, b, other].map((watch) => watch.next(forEver, undefined))
  t.equal(await settles(waits[0] as Promise<void>), 'waits')
  arrivals.announce('p')
  await Promise.all(waits.slice(0, 2))
  t.equal(await settles(waits[2] as Promise<void>), 'waits')
  arrivals.announce('q')
  await waits[2]
})

t.test('what was announced since the last time is not waited for again, and what came before is', async (t) => {
  const arrivals = createArrivals()
  arrivals.announce('p')
  const watch = arrivals.watch('p')
  const first = watch.next(forEver, undefined)
  t.equal(await settles(first), 'waits')
  arrivals.announce('p')
  await first
  arrivals.announce('p')
  arrivals.announce('p')
  await watch.next(forEver, undefined)
  const last = watch.next(forEver, undefined)
  t.equal(await settles(last), 'waits')
  arrivals.announce('p')
  await last
})

t.test('a wait ends by itself', async () => {
  await createArrivals().watch('p').next(1, undefined)
})

t.test('a signal ends a wait, and nothing is left on it by one that was woken', async (t) => {
  const arrivals = createArrivals()
  const { signal, abort } = withAbort()
  const watch = arrivals.watch('p')
  const woken = watch.next(forEver, signal)
  arrivals.announce('p')
  await woken
  t.strictSame(getEventListeners(signal, 'abort'), [])
  const aborted = watch.next(forEver, signal)
  abort()
  await aborted
  t.strictSame(getEventListeners(signal, 'abort'), [])
  await watch.next(forEver, signal)
})

function withAbort() {
  const controller = new AbortController()
  return { signal: controller.signal, abort: () => controller.abort() }
}

t.test('a watch that has ended is told nothing', async (t) => {
  const arrivals = createArrivals()
  const [left, stays] = [arrivals.watch('p'), arrivals.watch('p')]
  left.end()
  const wait = stays.next(forEver, undefined)
  arrivals.announce('p')
  await wait
  stays.end()
  arrivals.announce('p')
  const next = arrivals.watch('p').next(forEver, undefined)
  t.equal(await settles(next), 'waits')
  arrivals.announce('p')
  await next
})

t.test('nobody waits after the end', async (t) => {
  const arrivals = createArrivals()
  const watch = arrivals.watch('p')
  const wait = watch.next(forEver, undefined)
  arrivals.close()
  await t.rejects(wait, { code: 'store-closed' })
  await t.rejects(watch.next(forEver, undefined), { code: 'store-closed' })
  await t.rejects(arrivals.watch('q').next(forEver, undefined), { code: 'store-closed' })
})
