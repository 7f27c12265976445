import { createIngest, openMemoryStore } from '@ingest/core'
import t from 'tap'
import { readBytesMin } from '../../src/limits/rate-limits.ts'
import { rejectedReadBytes } from '../../src/routes/get-recent.ts'
import { edges } from '../edges.ts'
import { get } from '../map-parts.ts'
import { headersOf, openTestIngest, projectId } from '../test-ingest.ts'

const at = '1970-01-01T00:00:01.000Z'
const invalid = `{"projectId":"${projectId}", "eventId":"e-1","type":5}`
const issue = { code: 'invalid_type', path: '/type', message: 'Expected a string.' }

/** An Ingest with one accepted and two rejected events. */
async function openWithRejected(options: Parameters<typeof openTestIngest>[0] = {}) {
  const opened = await openTestIngest({ now: () => 1_000, ...options })
  const body = Buffer.from(`{"events":[{"projectId":"${projectId}","eventId":"e-0"},${invalid},7]}`)
  await opened.ingest.project(projectId).submitBatch(body)
  return opened
}

for (const { name, open } of edges) {
  t.test(`by ${name}, the outcomes of the last minutes are returned`, async (t) => {
    const { ingest, key } = await openWithRejected()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    const response = await edge.send(get('/v1/activity', key))
    t.match(response.headers, { 'content-type': 'application/json', 'cache-control': 'no-store' })
    t.strictSame(JSON.parse(response.body), {
      since: at,
      servers: 1,
      minutes: [{ at: '1970-01-01T00:00:00.000Z', accepted: 1, duplicates: 0, rejected: 2 }],
    })
    const head = await edge.send(get('/v1/activity', key, [], 'HEAD'))
    t.match(head, { status: 200, headers: { 'content-length': /^[1-9]\d*$/ }, body: /^$/ })
  })

  t.test(`by ${name}, the last rejected events are returned, with their text if they are kept`, async (t) => {
    for (const keepEvents of [false, true]) {
      const { ingest, key } = await openWithRejected({ rejected: { keepEvents } })
      const edge = await open(ingest)
      t.teardown(() => edge.close())
      const notObject = { code: 'not_object', path: '', message: 'Expected an object.' }
      const newest = { receivedAt: at, index: 2, eventId: null, issues: [notObject], ...(keepEvents && { event: '7' }) }
      const older = { receivedAt: at, index: 1, eventId: 'e-1', issues: [issue], ...(keepEvents && { event: invalid }) }
      const groups = [notObject, issue].map((each) => ({ ...each, count: 1, lastAt: at }))
      const all = { since: at, total: 2, groups, rejected: [newest, older] }
      t.strictSame(JSON.parse((await edge.send(get('/v1/rejected', key))).body), all)
      const one = await edge.send(get('/v1/rejected?limit=1', key))
      t.strictSame(JSON.parse(one.body), { ...all, rejected: [newest] })
    }
  })

  t.test(`by ${name}, both take no unknown parameter and no other method, and need the scope to read`, async (t) => {
    const { ingest, key } = await openWithRejected()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    const { key: writer } = await ingest.keys.create(projectId, { scopes: ['events:write', 'maps:write'] })
    const { key: stranger } = await ingest.keys.create('game-2')
    for (const path of ['/v1/activity', '/v1/rejected']) {
      t.match(JSON.parse((await edge.send(get(`${path}?a=1`, key))).body), { code: 'invalid-argument' })
      t.match(await edge.send(get(path, key, [], 'DELETE')), { status: 405, headers: { allow: 'GET, HEAD' } })
      t.equal((await edge.send(get(path, writer))).status, 401)
      t.equal((await edge.send(get(path, stranger))).status, 401)
      const other = await edge.send({ method: 'GET', path, headers: headersOf(stranger, 'game-2') })
      t.match(JSON.parse(other.body), path === '/v1/activity' ? { minutes: [] } : { total: 0, rejected: [] })
    }
    for (const limit of ['0', '1001', '-1', 'x', '']) {
      const refused = await edge.send(get(`/v1/rejected?limit=${limit}`, key))
      t.match(JSON.parse(refused.body), { code: 'invalid-argument', limit: 1_000 })
    }
  })

  t.test(
    `by ${name}, a list of rejected events is charged by its bytes and for grouping them, also by HEAD`,
    async (t) => {
      const { ingest, key } = await openWithRejected()
      const burst = 1_000_000
      const edge = await open(ingest, { rateLimits: { readBytes: { perSecond: 1, burst }, now: () => 0 } })
      t.teardown(() => edge.close())
      const { body, headers } = await edge.send(get('/v1/rejected', key))
      const charged = readBytesMin + rejectedReadBytes + body.length
      t.match(headers.ratelimit, `"read-bytes";r=${burst - charged};`)
      const head = await edge.send(get('/v1/rejected', key, [], 'HEAD'))
      t.match(head.headers.ratelimit, `"read-bytes";r=${burst - 2 * charged};`, 'it takes the same work')
    },
  )
}

t.test('the servers of a store are those between which the rate limits are divided', async (t) => {
  const store = { ...openMemoryStore(), registerServer: () => () => 3 }
  for (const { open } of edges) {
    for (const [options, servers] of [
      [{}, 1],
      [{ rateLimits: {} }, 3],
    ] as const) {
      const ingest = createIngest({ store })
      const { key } = await ingest.keys.create(projectId)
      const edge = await open(ingest, options)
      t.teardown(() => edge.close())
      t.match(JSON.parse((await edge.send(get('/v1/activity', key))).body), { servers })
    }
  }
})

for (const { name, open } of edges) {
  t.test(`by ${name}, a request that is not authenticated leaves no trace`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    const sent = { body: `{"events":[7]}` }
    t.equal((await edge.send({ ...sent, headers: headersOf('ik_wrong') })).status, 401)
    t.match(JSON.parse((await edge.send(get('/v1/rejected', key))).body), { total: 0 })
    t.equal((await edge.send({ ...sent, headers: headersOf(key) })).status, 202)
    t.match(JSON.parse((await edge.send(get('/v1/rejected', key))).body), { total: 1 }, 'nothing was stored before')
  })
}
