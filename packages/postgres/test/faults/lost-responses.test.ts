import { createIngest } from '@ingest/core'
import t from 'tap'
import { openPostgresStore } from '../../src/open-postgres-store.ts'
import { createDatabase, noPostgres } from '../database.ts'
import { startProxy } from '../proxy.ts'

t.test('the results are the same, whichever statement loses its connection', { skip: noPostgres }, async (t) => {
  const database = await createDatabase()
  const proxy = await startProxy(t, database)
  const expected = await useAll(proxy.url, 'whole')
  t.match(expected, {
    batches: [
      { accepted: 3, duplicates: 0 },
      { accepted: 1, duplicates: 2 },
    ],
    together: { accepted: 5, duplicates: 3 },
    revoked: [true],
    isValid: false,
    erased: [2, 7, 0, 0],
    activity: ['hour "last"', 'minute "first"', 'minute "last"'],
    events: ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'],
    conflicts: 2,
  })
  for (const when of ['running', 'committed'] as const) {
    let n = 0
    do {
      n++
      const result = await useAll(proxy.url, `${when}-${n}`, () => proxy.cut(n, when))
      t.strictSame(result, expected, `statement ${n}, ${when}`)
    } while (proxy.isCut())
    proxy.cut(Number.POSITIVE_INFINITY, when)
    t.ok(n > 12)
  }
})

/** Uses every operation that writes, with its own project, and returns the results. */
async function useAll(url: string, projectId: string, onOpen = () => {}) {
  const store = await openPostgresStore(url)
  const ingest = createIngest({ store })
  onOpen()
  const project = ingest.project(projectId)
  const batch = (ids: string[], more = {}) =>
    project.submitBatch({ events: ids.map((eventId) => ({ projectId, eventId, ...more })) })
  const { key } = await ingest.keys.create(projectId)
  const batches = [
    await batch(['a', 'b', 'c']),
    // a and b have other bytes
    await batch(['b', 'd', 'a'], { buildId: 'build-1', placeId: 'place-1' }),
  ]
  // the first two run at once, and the others share one statement
  const raced = await Promise.all(['e', 'g', 'h', 'i'].map((id) => batch([id, 'f'])))
  const erased = [await store.erase(projectId, ['b', 'x', 'd'])]
  const { bytes } = await store.totals(projectId)
  const expired = await store.expire(projectId, Date.now() + 60_000)
  erased.push(expired.events, expired.bytes - bytes, (await store.totals(projectId)).bytes)
  const events: string[] = []
  for await (const page of store.read(projectId, { erased: true }))
    for (const { erased } of page) events.push(String(erased))
  for (const [n, body] of ['"first"', '"last"'].entries()) {
    const row = { projectId, writer: '00000000000000ff', body }
    const expiring = { ...row, span: 'hour', at: n } as const
    await store.putActivity([{ ...row, span: 'minute', at: 10 + n }, { ...row, span: 'hour', at: 10 }, expiring])
  }
  await store.sweep({ mapsTouched: 0, activity: 10 })
  const activity: string[] = []
  for (const span of ['hour', 'minute'] as const) {
    for await (const { body } of store.activity(projectId, { span, from: 0, to: 20 })) activity.push(`${span} ${body}`)
  }
  const [first] = await ingest.keys.list(projectId)
  await ingest.keys.revoke(projectId, first?.keyId as string)
  const keys = await ingest.keys.list(projectId)
  const result = {
    batches,
    together: {
      accepted: raced.reduce((sum, { accepted }) => sum + accepted, 0),
      duplicates: raced.reduce((sum, { duplicates }) => sum + duplicates, 0),
    },
    erased,
    activity,
    events: events.sort(),
    conflicts: ingest.tally().conflicts,
    revoked: keys.map(({ revokedAt }) => revokedAt !== undefined),
    isValid: await ingest.authenticate({ projectId, key, scope: 'events:write' }),
    isKnown: (await project.findEvent('d')) !== undefined,
  }
  await ingest.close()
  return result
}
