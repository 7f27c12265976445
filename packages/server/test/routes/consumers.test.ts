import t from 'tap'
import { readBytesMin } from '../../src/limits/rate-limits.ts'
import { lagReadBytes } from '../../src/routes/consumers.ts'
import { byEachEdge, openFetch } from '../edges.ts'
import { get, put } from '../map-parts.ts'
import { batchOf, projectId } from '../test-ingest.ts'

const path = '/v1/consumers/warehouse'
const at = '1970-01-01T00:00:01.000Z'

byEachEdge('a consumer is created, moved, read and deleted', async (t, open) => {
  let now = 1_000
  const { ingest, send } = await open({}, { now: () => now })
  const { key } = await ingest.keys.create(projectId, { scopes: ['read', 'consume'] })
  const project = ingest.project(projectId)
  const start = await project.lastCursor()
  await project.submitBatch(Buffer.from(batchOf(3)))
  const end = await project.lastCursor()
  t.match(await send(get(path, key)), { status: 404, json: { code: 'consumer-not-found', retryable: false } })
  const created = await send(put(path, key, { cursor: start, replaces: null }))
  t.equal(created.status, 201)
  t.strictSame(created.json, { name: 'warehouse', cursor: start, updatedAt: at, outcome: 'created' })
  now = 3_500
  const behind = { name: 'warehouse', cursor: start, updatedAt: at, lag: { events: 3, exact: true, seconds: 2.5 } }
  t.strictSame((await send(get(path, key))).json, behind)
  t.strictSame((await send(get('/v1/consumers', key))).json, { consumers: [behind] })
  t.match(await send(get(path, key, {}, 'HEAD')), { status: 200, body: '' })
  const moved = await send(put(path, key, { cursor: end, replaces: start }))
  t.match(moved, { status: 200, json: { cursor: end, outcome: 'updated' } })
  const again = await send(put(path, key, { cursor: end, replaces: start }))
  t.match(again, { status: 200, json: { cursor: end, outcome: 'unchanged' } })
  t.match((await send(get(path, key))).json, { cursor: end, lag: { events: 0, exact: true, seconds: 0 } })
  const late = await send(put(path, key, { cursor: start, replaces: start }))
  t.match(late, { status: 409, json: { code: 'consumer-conflict', cursor: end, retryable: false } })
  const deleted = await send(get(path, key, {}, 'DELETE'))
  t.match(deleted, { status: 200, json: { name: 'warehouse', cursor: end } })
  t.match(await send(get(path, key, {}, 'DELETE')), { status: 404, json: { code: 'consumer-not-found' } })
  const missing = await send(put(path, key, { cursor: end, replaces: start }))
  t.match(missing, { status: 409, json: { code: 'consumer-conflict', cursor: null } })
})

byEachEdge('a key with the scope read alone moves and deletes no consumer', async (t, open) => {
  const { ingest, send } = await open()
  const { key: reader } = await ingest.keys.create(projectId, { scopes: ['read'] })
  const { key: mover } = await ingest.keys.create(projectId, { scopes: ['consume'] })
  const cursor = await ingest.project(projectId).lastCursor()
  const creation = { cursor, replaces: null }
  t.equal((await send(put(path, reader, creation))).status, 401)
  t.equal((await send(put(path, mover, creation))).status, 201)
  t.equal((await send(get(path, reader, {}, 'DELETE'))).status, 401)
  t.match((await send(get('/v1/consumers', reader))).json, { consumers: [{ name: 'warehouse' }] })
  t.equal((await send(get(path, mover))).status, 401)
  t.equal((await send(get(path, mover, {}, 'DELETE'))).status, 200)
})

byEachEdge('a consumer needs a key with the scope of the method, and a valid name and body', async (t, open) => {
  const { ingest, key, send } = await open()
  const writer = await ingest.keys.create(projectId, { scopes: ['events:write', 'maps:write'] })
  const cursor = await ingest.project(projectId).lastCursor()
  const body = { cursor, replaces: null }
  for (const method of ['GET', 'DELETE']) t.equal((await send(get(path, writer.key, {}, method))).status, 401)
  t.equal((await send(put(path, writer.key, body))).status, 401)
  t.match(await send({ ...get(path, key), method: 'POST' }), {
    status: 405,
    headers: { allow: 'GET, HEAD, PUT, DELETE' },
  })
  for (const name of ['.hidden', 'a%20b', 'x'.repeat(65)]) {
    t.match(await send(put(`/v1/consumers/${name}`, key, body)), { status: 400, json: { code: 'invalid-argument' } })
  }
  for (const strange of [{}, { cursor }, { cursor, replaces: 1 }, { ...body, replace: null }, [], null]) {
    t.match(await send(put(path, key, strange)), { status: 400, json: { code: 'invalid-argument' } })
  }
  t.match(await send(put(path, key, { ...body, cursor: 'x' })), { status: 400, json: { code: 'invalid-cursor' } })
  t.strictSame(await ingest.project(projectId).listConsumers(), [])
})

t.test('reads of consumers are charged for counting their lag', async (t) => {
  const burst = 3 * readBytesMin + 2 * lagReadBytes
  const limit = { perSecond: 1, burst }
  const { ingest, key, send } = await openFetch(t, { rateLimits: { readBytes: limit, now: () => 0 } })
  const cursor = await ingest.project(projectId).lastCursor()
  for (const name of ['a', 'b']) await ingest.project(projectId).putConsumer(name, { cursor, replaces: null })
  t.equal((await send(get('/v1/consumers', key))).status, 200)
  t.equal((await send(get('/v1/consumers/a', key))).status, 200)
  t.match(await send(get('/v1/consumers/a', key)), { status: 429, json: { code: 'rate-limited' } })
})
