import t from 'tap'
import { eventsReadDefault } from '../src/answer-events.ts'
import { batchOf, openTestIngest, projectId } from './batches.ts'
import { edges } from './edges.ts'
import { get } from './map-parts.ts'

function linesOf(body: string) {
  t.ok(body === '' || body.endsWith('\n'))
  return body
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line))
}
const idsOf = (body: string) => linesOf(body).map(({ event }) => event.eventId)

for (const { name, open } of edges) {
  t.test(`by ${name}, events come back oldest first, with their bytes, and go on behind a cursor`, async (t) => {
    const { ingest, key } = await openTestIngest({ now: () => 1234 })
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    const event = '{ "projectId":"game-1",\t"eventId":"\\u00e4ö", "n": 12345678901234567890.10 }'
    await ingest.submitBatch(projectId, Buffer.from(`{"events":[${event}]}`))
    await ingest.submitBatch(projectId, Buffer.from(batchOf(4)))
    const answer = await edge.send(get('/v1/events', key))
    t.equal(answer.status, 200)
    t.match(answer.headers, {
      'content-type': 'application/x-ndjson',
      'content-length': String(answer.bytes.length),
      'cache-control': 'no-store',
      'x-request-id': /-/,
    })
    t.strictSame(idsOf(answer.body), ['äö', 'e-0', 'e-1', 'e-2', 'e-3'])
    const [first] = answer.body.split('\n')
    t.ok(first?.endsWith(`"receivedAt":1234,"event":${event}}`))
    const seen: string[] = []
    for (let query = '?limit=2'; ; ) {
      const lines = linesOf((await edge.send(get(`/v1/events${query}`, key))).body)
      seen.push(...lines.map(({ event }) => event.eventId))
      if (lines.length === 0) break
      query = `?limit=2&after=${encodeURIComponent(lines.at(-1).cursor)}`
    }
    t.strictSame(seen, ['äö', 'e-0', 'e-1', 'e-2', 'e-3'])
  })

  t.test(`by ${name}, an answer of many pieces is whole`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    const ids: string[] = []
    for (let i = 0; i < 12; i++) {
      const events = Array.from({ length: 100 }, (_, k) => ({
        projectId,
        eventId: `${i}-${k}`,
        filler: 'x'.repeat(2000),
      }))
      await ingest.submitBatch(projectId, { events })
      ids.push(...events.map(({ eventId }) => eventId))
    }
    const usual = await edge.send(get('/v1/events', key))
    t.strictSame(idsOf(usual.body), ids.slice(0, eventsReadDefault))
    t.notOk('content-length' in usual.headers, 'nobody knows how long it will be')
    t.strictSame(idsOf((await edge.send(get('/v1/events?limit=10000', key))).body), ids)
    t.strictSame(idsOf((await edge.send(get('/v1/events?limit=1', key))).body), ids.slice(0, 1))
    const head = await edge.send(get('/v1/events', key, [], 'HEAD'))
    t.match(head, { status: 200, body: '', headers: { 'content-type': 'application/x-ndjson' } })
  })

  t.test(`by ${name}, one event is found by its id`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    await ingest.submitBatch(projectId, {
      events: [
        { projectId, eventId: 'a b/ä' },
        { projectId, eventId: 'c' },
      ],
    })
    const found = await edge.send(get(`/v1/events?eventId=${encodeURIComponent('a b/ä')}`, key))
    t.equal(found.status, 200)
    t.strictSame(idsOf(found.body), ['a b/ä'])
    const absent = await edge.send(get('/v1/events?eventId=d', key))
    t.match(absent, { status: 200, body: '', headers: { 'content-length': '0' } })
    t.match(absent.headers, { 'content-type': 'application/x-ndjson' })
  })

  t.test(`by ${name}, what cannot be asked is refused, also by HEAD`, async (t) => {
    const { ingest, key } = await openTestIngest()
    const edge = await open(ingest)
    t.teardown(() => edge.close())
    for (const [query, code] of [
      ['?after=nonsense', 'invalid-cursor'],
      ['?after=', 'invalid-cursor'],
      ['?limit=0', 'invalid-argument'],
      ['?limit=10001', 'invalid-argument'],
      ['?limit=all', 'invalid-argument'],
      ['?limit=1&limit=2', 'invalid-argument'],
      ['?from=1', 'invalid-argument'],
      ['?eventId=', 'invalid-argument'],
      ['?eventId=a&limit=1', 'invalid-argument'],
      ['?eventId=a&after=b', 'invalid-argument'],
    ] as const) {
      const answer = await edge.send(get(`/v1/events${query}`, key))
      t.equal(answer.status, 400, query)
      t.equal(JSON.parse(answer.body).code, code, query)
      t.equal((await edge.send(get(`/v1/events${query}`, key, [], 'HEAD'))).status, 400, query)
    }
    const { key: writing } = await ingest.keys.create(projectId, { scopes: ['events:write', 'maps:write'] })
    t.equal((await edge.send(get('/v1/events', writing))).status, 401)
  })
}
