import { mock } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createIngest, openMemoryStore, type Store } from '@ingest/core'
import t, { type Test } from 'tap'
import { toFetchHandler } from '../../src/fetch-handler.ts'
import { createWait } from '../../src/http/answer-time.ts'
import { batchOf, headersOf, projectId } from '../test-ingest.ts'

const never = () => new Promise<never>(() => {})

function mockTimers(t: Test): void {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
}

t.test('a store that hangs is a 503 in time, whichever step hangs', async (t) => {
  for (const [path, step, body] of [
    ['/v1/events/batch', 'append', batchOf(1)],
    ['/v1/events/batch', 'known', `{"events":[{"projectId":"${projectId}","eventId":"a","buildId":1}]}`],
    ['/v1/builds', 'builds', undefined],
    ['/v1/stats', 'totals', undefined],
    ['/v1/events?eventId=a', 'find', undefined],
    ['/v1/builds', 'project', undefined],
  ] as const) {
    await t.test(`${path}, ${step}`, async (t) => {
      const store: Store = openMemoryStore()
      const { key } = await createIngest({ store }).keys.create(projectId)
      let isAsked = false
      const hang = () => {
        isAsked = true
        return never()
      }
      const handle = toFetchHandler(createIngest({ store: { ...store, [step]: hang } }), {
        log: { error() {}, warn() {}, info() {}, debug() {} } as never,
      })
      mockTimers(t)
      const options = body === undefined ? {} : { method: 'POST', body }
      const request = new Request(`http://localhost${path}`, { headers: headersOf(key), ...options })
      const answered = handle(request) as Promise<Response>
      while (!isAsked) await nextTurn()
      await nextTurn()
      mock.timers.tick(14_000)
      const response = await answered
      t.equal(response.status, 503)
      t.equal(response.headers.get('retry-after'), '1')
      const code = step === 'project' ? 'key-store-unavailable' : 'store-unavailable'
      t.match(await response.json(), { code })
    })
  }
})

t.test('the steps of a request share its time', async (t) => {
  mockTimers(t)
  let now = 0
  t.intercept(performance, 'now', { value: () => now })
  const wait = createWait()
  t.equal(await wait(Promise.resolve('first')), 'first')
  const slow = wait(
    new Promise((resolve) => {
      setTimeout(resolve, 10_000, 'second')
    }),
  )
  now += 10_000
  mock.timers.tick(10_000)
  t.equal(await slow, 'second')
  let isLate = false
  const third = wait(never()).catch(({ code }) => {
    isLate = true
    return code
  })
  mock.timers.tick(3999)
  await nextTurn()
  t.notOk(isLate)
  mock.timers.tick(1)
  t.equal(await third, 'store-unavailable')
})
