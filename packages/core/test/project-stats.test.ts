import t from 'tap'
import { createIngest } from '../src/ingest.ts'
import { openMemoryStore } from '../src/memory/memory-store.ts'

/** An Ingest with the time of `clock.now`. */
function setUp() {
  const clock = { now: 1_000_000 }
  const ingest = createIngest({ store: openMemoryStore(), now: () => clock.now })
  let count = 0
  return {
    ingest,
    clock,
    async submit(events: number) {
      const batch = Array.from({ length: events }, () => ({ projectId: 'p', eventId: `e-${count++}` }))
      await ingest.project('p').submitBatch({ events: batch })
    },
    rate: async () => (await ingest.project('p').getStats()).eventsPerSecond,
  }
}

t.test('the rate is that of the last minute', async (t) => {
  const { clock, submit, rate } = setUp()
  t.equal(await rate(), 0)
  await submit(60)
  t.equal(await rate(), 1)
  clock.now += 30_000
  await submit(30)
  t.equal(await rate(), 1.5)
  clock.now += 30_000
  t.equal(await rate(), 1.5, 'a minute has both of its ends')
  clock.now += 1
  t.equal(await rate(), 0.5)
  clock.now += 30_000
  t.equal(await rate(), 0)
})

t.test('of more than 10,000 batches in a minute, the rate is that of the newest', async (t) => {
  const { clock, submit, rate } = setUp()
  await submit(100)
  clock.now += 1_000
  for (let i = 0; i < 9_998; i++) await submit(1)
  clock.now += 4_000
  t.equal(await rate(), 10_098 / 60)
  await submit(1)
  await submit(1)
  t.equal(await rate(), 10_000 / 4, 'the batch of 100 is not among them')
})

t.test('a clock that goes backwards does not raise the rate beyond one second', async (t) => {
  const { clock, submit, rate } = setUp()
  for (let i = 0; i < 10_000; i++) await submit(1)
  clock.now -= 500_000
  t.equal(await rate(), 10_000)
})

t.test('builds are counted beyond one page', async (t) => {
  const { ingest } = setUp()
  for (let i = 0; i < 25; i++) {
    const events = Array.from({ length: 100 }, (_, n) => ({
      projectId: 'p',
      eventId: `${i}-${n}`,
      buildId: `${i}-${n}`,
    }))
    await ingest.project('p').submitBatch({ events })
  }
  await ingest.project('p').publishMap({ placeId: '1', buildId: 'open', map: 1 })
  t.match(await ingest.project('p').getStats(), { builds: 2_501, frozenBuilds: 2_500, maps: 1 })
})

t.test('a page that holds the last build is the last page', async (t) => {
  const { ingest } = setUp()
  for (const buildId of ['a', 'b', 'c']) await ingest.project('p').publishMap({ placeId: '1', buildId, map: 1 })
  const first = await ingest.project('p').listBuilds({ limit: 2 })
  t.equal(typeof first.next, 'string')
  t.match(await ingest.project('p').listBuilds({ limit: 1, cursor: first.next as string }), {
    builds: [{ buildId: 'c' }],
    next: null,
  })
  t.equal((await ingest.project('p').listBuilds({ limit: 3 })).next, null)
})

t.test('hasProject finds a project with an event, a map or a key, and lists none', async (t) => {
  const store = openMemoryStore()
  const ingest = createIngest({ store: { ...store, projects: () => Promise.reject(new Error('listed')) } })
  await ingest.project('events').submitBatch({ events: [{ projectId: 'events', eventId: 'e' }] })
  await ingest.project('maps').publishMap({ placeId: '1', buildId: 'b', map: {} })
  await ingest.keys.create('keys')
  for (const projectId of ['events', 'maps', 'keys']) t.equal(await ingest.hasProject(projectId), true, projectId)
  t.equal(await ingest.hasProject('other'), false)
})
