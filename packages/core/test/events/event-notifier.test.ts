import { getEventListeners } from 'node:events'
import t from 'tap'
import { createEventNotifier } from '../../src/events/event-notifier.ts'

/** Longer than any test. */
const longMs = 2 ** 30

/** Whether `next` resolves within some turns of the event loop. */
function isWoken(next: Promise<void>): Promise<boolean> {
  const turns = new Promise<false>((resolve) => setImmediate(() => setImmediate(resolve, false)))
  return Promise.race([next.then(() => true), turns])
}

t.test('a notification wakes all subscriptions of its project, and no others', async (t) => {
  const notifier = createEventNotifier()
  const [a, b, other] = [notifier.subscribe('p'), notifier.subscribe('p'), notifier.subscribe('q')]
  const pending = [a, b, other].map((subscription) => subscription.next(longMs, undefined))
  t.equal(await isWoken(pending[0] as Promise<void>), false)
  notifier.notify('p')
  await Promise.all(pending.slice(0, 2))
  t.equal(await isWoken(pending[2] as Promise<void>), false)
  notifier.notify('q')
  await pending[2]
})

t.test('a notification since the last next wakes at once, and one before the subscription does not', async (t) => {
  const notifier = createEventNotifier()
  notifier.notify('p')
  const subscription = notifier.subscribe('p')
  const first = subscription.next(longMs, undefined)
  t.equal(await isWoken(first), false)
  notifier.notify('p')
  await first
  notifier.notify('p')
  notifier.notify('p')
  await subscription.next(longMs, undefined)
  const last = subscription.next(longMs, undefined)
  t.equal(await isWoken(last), false)
  notifier.notify('p')
  await last
})

t.test('next resolves after its timeout', async () => {
  await createEventNotifier().subscribe('p').next(1, undefined)
})

t.test('next resolves when its signal aborts, and leaves no listener on it', async (t) => {
  const notifier = createEventNotifier()
  const { signal, abort } = withAbort()
  const subscription = notifier.subscribe('p')
  const woken = subscription.next(longMs, signal)
  notifier.notify('p')
  await woken
  t.strictSame(getEventListeners(signal, 'abort'), [])
  const aborted = subscription.next(longMs, signal)
  abort()
  await aborted
  t.strictSame(getEventListeners(signal, 'abort'), [])
  await subscription.next(longMs, signal)
})

function withAbort() {
  const controller = new AbortController()
  return { signal: controller.signal, abort: () => controller.abort() }
}

t.test('a subscription that has ended leaves the others notified', async (t) => {
  const notifier = createEventNotifier()
  const [left, stays] = [notifier.subscribe('p'), notifier.subscribe('p')]
  left.end()
  const woken = stays.next(longMs, undefined)
  notifier.notify('p')
  await woken
  stays.end()
  notifier.notify('p')
  const next = notifier.subscribe('p').next(longMs, undefined)
  t.equal(await isWoken(next), false)
  notifier.notify('p')
  await next
})

t.test('close rejects every next with store-closed, pending or later', async (t) => {
  const notifier = createEventNotifier()
  const subscription = notifier.subscribe('p')
  const next = subscription.next(longMs, undefined)
  notifier.close()
  await t.rejects(next, { code: 'store-closed' })
  await t.rejects(subscription.next(longMs, undefined), { code: 'store-closed' })
  await t.rejects(notifier.subscribe('q').next(longMs, undefined), { code: 'store-closed' })
})

/** A `watch` that records the watched projects, and calls their listeners. */
function createWatch() {
  const watched: { projectId: string; onAppend: () => void }[] = []
  return {
    watch(projectId: string, onAppend: () => void) {
      const entry = { projectId, onAppend }
      watched.push(entry)
      return () => void watched.splice(watched.indexOf(entry), 1)
    },
    projects: () => watched.map(({ projectId }) => projectId),
    append: () => {
      for (const { onAppend } of watched) onAppend()
    },
  }
}

t.test('the subscriptions of a project share one watch, which ends with the last of them', async (t) => {
  const { watch, projects, append } = createWatch()
  const notifier = createEventNotifier(watch)
  const [a, b, other] = [notifier.subscribe('p'), notifier.subscribe('p'), notifier.subscribe('q')]
  t.strictSame(projects(), ['p', 'q'])
  const pending = [a, b].map((subscription) => subscription.next(longMs, undefined))
  append()
  await Promise.all(pending)
  a.end()
  a.end()
  t.strictSame(projects(), ['p', 'q'])
  const woken = b.next(longMs, undefined)
  append()
  await woken
  b.end()
  other.end()
  t.strictSame(projects(), [])
  notifier.subscribe('p')
  t.strictSame(projects(), ['p'], 'watched again')
})

t.test('close ends every watch, and a later subscription begins none', async (t) => {
  const { watch, projects } = createWatch()
  const notifier = createEventNotifier(watch)
  const subscription = notifier.subscribe('p')
  notifier.close()
  t.strictSame(projects(), [])
  subscription.end()
  notifier.subscribe('q').end()
  t.strictSame(projects(), [])
})

t.test('a watch that throws is the error of the subscription, and the next one begins it again', async (t) => {
  let isDown = true
  const notifier = createEventNotifier(() => {
    if (isDown) throw new RangeError('closed')
    return () => {}
  })
  t.throws(() => notifier.subscribe('p'), RangeError)
  isDown = false
  notifier.subscribe('p').end()
})
