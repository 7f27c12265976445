import t from 'tap'
import { json, openScriptedClient, problem } from '../scripted-server.ts'

const at = 1_795_203_225_083
const counts = { events: 3, batches: 2, bytes: 100, eventsPerSecond: 0.05, builds: 2, frozenBuilds: 1, maps: 1 }

t.test('getStats returns times in milliseconds', async (t) => {
  const times = { firstAt: '2026-11-20T19:33:45.083Z', lastAt: null }
  const { client, received } = await openScriptedClient(
    t,
    {},
    problem(503, 'overloaded'),
    json(200, { ...counts, ...times }),
    json(200, { ...counts, ...times, events: -1 }),
  )
  t.strictSame(await client.getStats(), { ...counts, firstAt: at, lastAt: null })
  t.match(received[0], { method: 'GET', path: '/v1/stats', query: {} })
  await t.rejects(client.getStats(), { code: 'unexpected-response' })
})

t.test('listBuilds returns pages', async (t) => {
  const open = { buildId: 'b', frozenAt: null, maps: 1 }
  const frozen = { buildId: 'é', frozenAt: '2026-11-20T19:33:45.083Z', maps: 0 }
  const { client, received } = await openScriptedClient(
    t,
    {},
    json(200, { builds: [open, frozen], next: 'n' }),
    json(200, { builds: [], next: null }),
    problem(400, 'invalid-cursor'),
  )
  t.strictSame(await client.listBuilds(), { builds: [open, { ...frozen, frozenAt: at }], next: 'n' })
  t.strictSame(await client.listBuilds({ cursor: 'n', limit: 7 }), { builds: [], next: null })
  t.match(received[0], { method: 'GET', path: '/v1/builds' })
  t.strictSame(received[0]?.query, {})
  t.strictSame(received[1]?.query, { cursor: 'n', limit: '7' })
  await t.rejects(client.listBuilds({ cursor: 'x' }), { code: 'invalid-cursor' })
})

t.test('getActivity returns times in milliseconds', async (t) => {
  const time = '2026-11-20T19:33:45.083Z'
  const minute = { at: time, accepted: 3, duplicates: 0, rejected: 1 }
  const { client, received } = await openScriptedClient(
    t,
    {},
    json(200, { since: time, servers: 2, minutes: [minute] }),
    json(200, { since: time, servers: 2 }),
  )
  t.strictSame(await client.getActivity(), { since: at, servers: 2, minutes: [{ ...minute, at }] })
  t.match(received[0], { method: 'GET', path: '/v1/activity', query: {} })
  await t.rejects(client.getActivity(), { code: 'unexpected-response' })
})

t.test('listRejected returns times in milliseconds, and events where there are some', async (t) => {
  const time = '2026-11-20T19:33:45.083Z'
  const issue = { code: 'invalid_type', path: '/type', message: 'Expected a string.' }
  const kept = { receivedAt: time, index: 1, eventId: 'e', issues: [issue], event: '{ }' }
  const { event: _, ...bare } = kept
  const groups = [{ ...issue, count: 2, lastAt: time }]
  const { client, received } = await openScriptedClient(
    t,
    {},
    json(200, { since: time, total: 5, groups, rejected: [kept, bare] }),
    json(200, { since: time, total: 0, groups: [], rejected: [] }),
    problem(400, 'invalid-argument'),
  )
  t.strictSame(await client.listRejected(), {
    since: at,
    total: 5,
    groups: [{ ...issue, count: 2, lastAt: at }],
    rejected: [
      { ...kept, receivedAt: at },
      { ...bare, receivedAt: at },
    ],
  })
  t.strictSame(await client.listRejected({ limit: 7 }), { since: at, total: 0, groups: [], rejected: [] })
  t.match(received[0], { method: 'GET', path: '/v1/rejected' })
  t.strictSame(received[0]?.query, {})
  t.strictSame(received[1]?.query, { limit: '7' })
  await t.rejects(client.listRejected({ limit: 0 }), { code: 'invalid-argument' })
})

t.test('a signal aborts a call with its reason', async (t) => {
  const reason = new Error('aborted by the test')
  const { client, received } = await openScriptedClient(t, {}, json(200, counts))
  const options = { signal: AbortSignal.abort(reason) }
  await t.rejects(client.getStats(options), reason)
  await t.rejects(client.listBuilds(options), reason)
  await t.rejects(client.getActivity(options), reason)
  await t.rejects(client.listRejected(options), reason)
  t.equal(received.length, 0)
})
