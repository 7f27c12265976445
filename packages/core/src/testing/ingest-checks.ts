import assert from 'node:assert/strict'
import type { ErrorCode, IngestError, IssueCode } from '../error.ts'
import type { BatchResult } from '../events/batch.ts'
import { followEvents, type ReadEventsOptions } from '../events/read-events.ts'
import type { Ingest } from '../ingest.ts'
import { canonicalJson } from '../json/canonical-json.ts'
import { digestOf } from '../maps/digest.ts'
import type { ChunkUpload, Digest, Manifest, MapContent, PublishedMap, PublishOptions } from '../maps/map.ts'

/** Opens the Ingest of a project with nothing in it. */
export type OpenIngest = () => Promise<{ ingest: Ingest; close(): Promise<void> }>

/** One promise of an {@link Ingest}, embedded or over HTTP. */
export interface IngestCheck {
  /** The promise, as a fact: "a retry of the same batch changes nothing". */
  name: string
  /** Whether the check closes its Ingest; all others may use new projects of one Ingest. */
  isolated: boolean
  /** Resolves when the promise is kept, rejects with an `AssertionError` when not; closes what it opens. */
  run(open: OpenIngest): Promise<void>
}

/**
 * What every Ingest promises, for any test runner.
 *
 * ```ts
 * for (const { name, run } of ingestChecks) test(name, () => run(openMyIngest))
 * ```
 */
export const ingestChecks: readonly IngestCheck[] = [
  check('a batch says what became of each event', async ({ submit, event }) => {
    assert.deepEqual(await submit(event('a'), event('b')), { accepted: 2, duplicates: 0, rejected: [] })
    const result = await submit(event('b'), event('c'), 5, event('d', { buildId: 5 }), event('c'), { eventId: 'e' })
    assert.deepEqual([result.accepted, result.duplicates], [1, 2])
    assert.deepEqual(
      result.rejected.map(({ index, eventId, issues }) => [index, eventId, issues[0]?.code, issues[0]?.path]),
      [
        [2, null, 'not_object', ''],
        [3, 'd', 'invalid_type', '/buildId'],
        [5, 'e', 'required', '/projectId'],
      ],
    )
  }),

  check('an empty batch is answered with zeros', async ({ submit }) => {
    assert.deepEqual(await submit(), { accepted: 0, duplicates: 0, rejected: [] })
  }),

  check('a retry of the same batch changes nothing', async ({ ingest, event, events }) => {
    const body = Buffer.from(JSON.stringify({ events: [event('a'), event('b', { type: 5 })] }))
    const first = await ingest.submitBatch(body)
    const before = await events()
    const second = await ingest.submitBatch(body)
    assert.deepEqual(second, { ...first, accepted: 0, duplicates: 1 })
    assert.deepEqual(await events(), before)
  }),

  check('events are read as they were sent, byte for byte, in parts too', async ({ ingest, projectId, events }) => {
    const texts = ['a', 'é', '😀'].map(
      (id) => `{ "projectId":"${projectId}",\t"eventId": "${id}","n":12345678901234567890, "e":1.0E+2 }`,
    )
    await ingest.submitBatch(Buffer.from(`{"events":[${texts.join(' , ')}]}`))
    const all = await events()
    assert.deepEqual(
      all.map(({ text }) => text),
      texts,
    )
    for (const [i, { cursor, receivedAt }] of all.entries()) {
      assert.ok(Number.isSafeInteger(receivedAt) && receivedAt > 0)
      assert.deepEqual(await events({ after: cursor }), all.slice(i + 1))
      assert.deepEqual(await events({ after: cursor, limit: 1 }), all.slice(i + 1, i + 2))
    }
    assert.deepEqual(await events({ limit: 2 }), all.slice(0, 2))
    await assertRefused(events({ after: 'no cursor' }), 'invalid-cursor')
  }),

  check('a cursor of another store, or one that was changed, is refused', async (bench, open) => {
    const { ingest, submit, event, events } = bench
    const start = await ingest.lastCursor()
    await submit(event('a'), event('b'))
    const first = (await events())[0] as { cursor: string }
    assert.deepEqual(await events({ after: start }), await events())
    const other = await open()
    try {
      const theirs = benchOf(other)
      const cursors = [await other.ingest.lastCursor()]
      await theirs.submit(theirs.event('a'), theirs.event('b'))
      cursors.push(...(await theirs.events()).map(({ cursor }) => cursor))
      for (const after of cursors) await assertRefused(events({ after }), 'invalid-cursor')
      await assertRefused(theirs.events({ after: start }), 'invalid-cursor')
    } finally {
      await other.close()
    }
    for (const whole of [start, first.cursor]) {
      for (const i of [0, 7, 15, 23, whole.length - 1]) {
        const after = `${whole.slice(0, i)}${whole[i] === 'A' ? 'B' : 'A'}${whole.slice(i + 1)}`
        await assertRefused(events({ after }), 'invalid-cursor')
      }
    }
  }),

  check('events are chosen by type and build, and the limit counts those', async ({ submit, event, events }) => {
    const kinds = ['kill', 'kill', 'join', 'kill', undefined, 'join'].map((type, i) => ({ type, buildId: `b${i % 2}` }))
    for (const [i, kind] of kinds.entries()) await submit(event(`e${i}`, kind))
    await submit({ ...event('escaped'), type: 'kill', note: 'a "quoted" \\ text' })
    const ids = async (options: ReadEventsOptions) => (await events(options)).map(idOf)
    assert.deepEqual(await ids({ type: 'kill' }), ['e0', 'e1', 'e3', 'escaped'])
    assert.deepEqual(await ids({ buildId: 'b0' }), ['e0', 'e2', 'e4'])
    assert.deepEqual(await ids({ type: 'kill', buildId: 'b1' }), ['e1', 'e3'])
    assert.deepEqual(await ids({ type: 'none' }), [])
    assert.deepEqual(await ids({ type: 'kill', limit: 2 }), ['e0', 'e1'])
    assert.deepEqual(await ids({ type: 'kill', limit: 0 }), [])
    const [, second] = await events({ type: 'kill' })
    assert.deepEqual(await ids({ type: 'kill', after: second?.cursor ?? '', limit: 1 }), ['e3'])
    for (const bad of [
      { type: '' },
      { buildId: '' },
      { limit: -1 },
      { from: 0.5 },
      { to: Number.NaN },
      { waitMs: -1 },
    ]) {
      await assertRefused(events(bad), 'invalid-argument')
    }
  }),

  check('events are chosen by when they were received', async ({ submit, event, events }) => {
    for (const i of range(5)) await submit(event(`${i}`, { type: i % 2 === 0 ? 'first' : 'other' }))
    const all = await events()
    const times = all.map(({ receivedAt }) => receivedAt)
    assert.deepEqual(
      times,
      [...times].sort((a, b) => a - b),
      'times never decrease',
    )
    for (const from of times) {
      assert.deepEqual(
        await events({ from }),
        all.filter(({ receivedAt }) => receivedAt >= from),
      )
      assert.deepEqual(
        await events({ to: from }),
        all.filter(({ receivedAt }) => receivedAt < from),
      )
      assert.deepEqual(
        await events({ from, to: from + 1, type: 'first' }),
        all.filter(({ receivedAt, text }) => receivedAt === from && text.includes('"first"')),
      )
    }
    assert.deepEqual(await events({ from: (times.at(-1) ?? 0) + 1 }), [])
  }),

  check('a read says how far it came, also past what it left out', async ({ submit, event, events }) => {
    for (const i of range(4)) await submit(event(`${i}`, { type: i === 1 ? 'wanted' : 'other' }))
    const all = await events()
    for (const type of ['wanted', 'none', undefined]) {
      const told: string[] = []
      await events({ ...(type && { type }), onProgress: (cursor) => void told.push(cursor) })
      assert.equal(told.at(-1), all.at(-1)?.cursor)
      await submit(event(`after ${type}`, { type: 'other' }))
      const [last] = await events({ after: told.at(-1) ?? '' })
      assert.equal(last && idOf(last), `after ${type}`)
      all.push(last as (typeof all)[number])
    }
  }),

  check('a read waits for what is not there yet, and gives up when its time is over', async (bench) => {
    const { ingest, submit, event, events } = bench
    assert.deepEqual(await events({ waitMs: 1 }), [])
    await submit(event('old', { type: 'other' }))
    const { after, found } = {
      after: await ingest.lastCursor(),
      found: events({ type: 'new', waitMs: 60_000 }),
    }
    await submit(event('no', { type: 'other' }))
    await submit(event('yes', { type: 'new' }))
    assert.deepEqual((await found).map(idOf), ['yes'])
    assert.deepEqual(
      (await events({ after, waitMs: 60_000 })).map(idOf),
      ['no', 'yes'],
      'what is there is not waited for',
    )
    const told: string[] = []
    await events({ type: 'none', waitMs: 1, onProgress: (cursor) => void told.push(cursor) })
    assert.equal(told.at(-1), await ingest.lastCursor())
  }),

  check('a signal ends a wait with its reason', async ({ events }) => {
    const controller = new AbortController()
    const reason = new Error('no longer wanted')
    const waiting = events({ waitMs: 60_000, signal: controller.signal })
    controller.abort(reason)
    await assert.rejects(waiting, reason)
  }),

  isolatedCheck('closing ends a long poll', async ({ close, events }) => {
    const waiting = assertRefused(events({ waitMs: 60_000 }), 'store-closed')
    await close()
    await waiting
  }),

  check('events are followed from the last cursor on, as they come', async (bench) => {
    const { ingest, submit, event } = bench
    const start = await ingest.lastCursor()
    await submit(event('a'))
    const after = await ingest.lastCursor()
    const controller = new AbortController()
    const follow = (options: ReadEventsOptions) => followEvents(ingest, { signal: controller.signal, ...options })
    const [all, later, some] = [follow({ after: start }), follow({ after }), follow({ type: 'kill' })]
    const next = async (followed: typeof all) =>
      idOf({ text: Buffer.from((await followed.next()).value.bytes).toString() })
    assert.equal(await next(all), 'a')
    const waiting = [next(all), next(later), next(some)]
    await submit(event('b'))
    await submit(event('c', { type: 'kill' }))
    assert.deepEqual(await Promise.all(waiting), ['b', 'b', 'c'])
    assert.deepEqual([await next(all), await next(later)], ['c', 'c'])
    const ended = [all, later, some].map((each) => assert.rejects(each.next(), { message: 'enough' }))
    controller.abort(new Error('enough'))
    await Promise.all(ended)
  }),

  check('an event is found by its id', async ({ ingest, submit, event, events }) => {
    await submit(event('a'), event('an id with / ? & % # 😀'))
    for (const { text, cursor, receivedAt } of await events()) {
      const found = await ingest.findEvent((JSON.parse(text) as { eventId: string }).eventId)
      assert.equal(found && Buffer.from(found.bytes).toString(), text)
      assert.deepEqual([found?.cursor, found?.receivedAt], [cursor, receivedAt])
    }
    assert.equal(await ingest.findEvent('b'), undefined)
  }),

  check('statistics count what is stored, and say when it came', async (bench) => {
    const { ingest, submit, event, events, publish } = bench
    const nothing = { events: 0, batches: 0, bytes: 0, firstAt: null, lastAt: null, eventsPerSecond: 0 }
    const noBuilds = { builds: 0, frozenBuilds: 0, maps: 0 }
    assert.deepEqual(await ingest.getStats(), { ...nothing, ...noBuilds })
    await submit(event('a'), event('b', { buildId: 'b1' }), event('c', { type: 5 }))
    await submit(event('b'), event('d', { buildId: 'b1' }))
    await submit(event('a'))
    await publish({ map: 1, buildId: 'b1' })
    await publish({ map: 1, buildId: 'b2' })
    await publish({ map: 1, buildId: 'b2', placeId: '2' })
    await publish({ manifest: mapOf('not there').manifest, buildId: 'b3' })
    const { bytes, eventsPerSecond, ...counts } = await ingest.getStats()
    const times = (await events()).map(({ receivedAt }) => receivedAt)
    assert.deepEqual(counts, {
      events: 3,
      batches: 2,
      firstAt: times[0],
      lastAt: times.at(-1),
      builds: 3,
      frozenBuilds: 1,
      maps: 4,
    })
    assert.ok(Number.isSafeInteger(bytes) && bytes > 0)
    assert.ok(eventsPerSecond >= 0 && eventsPerSecond <= 3)
  }),

  check('builds are listed in pages, each with when it froze', async (bench) => {
    const { ingest, submit, event, publish } = bench
    assert.deepEqual(await ingest.listBuilds(), { builds: [], next: null })
    const open = ['B', 'b-2', 'é', '😀']
    for (const buildId of open) await publish({ map: 1, buildId })
    await publish({ map: 2, buildId: 'é', placeId: '2' })
    await submit(event('a', { buildId: 'b-1' }), event('b', { buildId: '\uffff' }))
    const { builds, next } = await ingest.listBuilds()
    assert.equal(next, null)
    assert.deepEqual(
      builds.map(({ buildId, frozenAt, maps }) => [buildId, frozenAt !== null, maps]),
      [
        ['B', false, 1],
        ['b-1', true, 0],
        ['b-2', false, 1],
        ['é', false, 2],
        ['\uffff', true, 0],
        ['😀', false, 1],
      ],
    )
    assert.equal(builds[1]?.frozenAt, (await ingest.findEvent('a'))?.receivedAt)
    for (const limit of [1, 2, 6]) {
      const seen: unknown[] = []
      for (let cursor: string | null | undefined; cursor !== null; ) {
        const page = await ingest.listBuilds({ ...(cursor && { cursor }), limit })
        assert.ok(page.builds.length <= limit)
        seen.push(...page.builds)
        cursor = page.next
      }
      assert.deepEqual(seen, builds)
    }
    await assertRefused(ingest.listBuilds({ cursor: 'no cursor' }), 'invalid-cursor')
    for (const limit of [0, 1_001]) await assertRefused(ingest.listBuilds({ limit }), 'invalid-argument')
  }),

  check('a batch that is no batch is refused, and nothing of it is stored', async (bench) => {
    const { ingest, event, events } = bench
    const submit = (body: string | Uint8Array) => ingest.submitBatch(Buffer.from(body))
    await assertRefused(submit('{'), 'malformed-body')
    await assertRefused(submit(Buffer.from([0x7b, 0xff, 0x7d])), 'malformed-body')
    await assertRefused(submit('[]'), 'invalid-envelope')
    await assertRefused(submit('{"events":{}}'), 'invalid-envelope')
    const events101 = range(101).map((i) => event(`${i}`))
    await assertRefused(bench.submit(...events101), 'too-many-events', { limit: 100, actual: 101 })
    const large = JSON.stringify({ events: [event('large', { fill: 'x'.repeat(262_144) })] })
    await assertRefused(submit(large), 'batch-too-large', { limit: 262_144 })
    assert.deepEqual(await events(), [])
  }),

  check('a full map is created, and read back as its canonical bytes', async ({ ingest, publish }) => {
    const map = { z: [1, 2.5, -0, 1e21], a: { é: 'ü', '': null }, '😀': true }
    const bytes = canonicalJson(map)
    const published = await publish({ map })
    const { publishedAt, ...rest } = published
    const outline = { digest: digestOf(bytes), size: bytes.length, contentType: 'application/json', chunks: 1 }
    const status = { placeId: '1', buildId: 'b', state: 'complete', ...outline, frozen: false, missing: [] }
    assert.deepEqual(rest, { outcome: 'created', ...status })
    assert.ok(publishedAt !== null && publishedAt === new Date(publishedAt).toISOString())
    const id = { placeId: '1', buildId: 'b' }
    assert.deepEqual(await ingest.getMap(id), { ...status, publishedAt, frozenAt: null, pending: null })
    const content = await ingest.getMapContent(id)
    assert.ok(content)
    assert.deepEqual(
      [content.placeId, content.buildId, content.digest, content.size, content.contentType, content.frozen],
      ['1', 'b', outline.digest, outline.size, outline.contentType, false],
    )
    assert.deepEqual(await bytesOf(content), bytes)
  }),

  check('any JSON value is a map', async ({ publish, text }) => {
    for (const [i, map] of [null, false, 0, '', [], {}].entries()) {
      const { outcome } = await publish({ map, buildId: `b${i}` })
      assert.equal(outcome, 'created')
      assert.equal(await text({ buildId: `b${i}` }), JSON.stringify(map))
    }
  }),

  check('a map is the same whatever the order of its members, its place as a number or as text', async (bench) => {
    const { publish } = bench
    const first = await publish({ placeId: 920_587_237, map: { a: 1, b: { c: 2, d: 3 } } })
    assert.equal(first.placeId, '920587237')
    const second = await publish({ placeId: '920587237', map: { b: { d: 3, c: 2 }, a: 1 } })
    assert.deepEqual(second, { ...first, outcome: 'unchanged' })
  }),

  check('another map for an open build replaces the first one', async ({ ingest, publish, text }) => {
    const { digest } = await publish({ map: 'first' })
    const replaced = await publish({ map: 'second' })
    assert.deepEqual([replaced.outcome, replaced.state], ['replaced', 'complete'])
    assert.equal(await text(), '"second"')
    assert.equal(await ingest.getChunk(digest), undefined, 'its chunks are gone')
  }),

  check('places and builds are published each for itself', async ({ publish, text }) => {
    const ids = ['1', '2', 'a/b?c&d=é 😀'].flatMap((placeId) =>
      ['b', 'B', 'c%20+'].map((buildId) => ({ placeId, buildId })),
    )
    for (const id of ids) assert.equal((await publish({ ...id, map: id })).outcome, 'created')
    for (const id of ids) assert.deepEqual(JSON.parse(await text(id)), id)
  }),

  check('what was never published is not there', async ({ ingest }) => {
    const id = { placeId: '1', buildId: 'b' }
    assert.equal(await ingest.getMap(id), undefined)
    assert.equal(await ingest.getMapContent(id), undefined)
    assert.equal(await ingest.getChunk(digestOf()), undefined)
    assert.deepEqual(await ingest.listMaps(), { maps: [], next: null })
  }),

  check('a manifest says what is missing, and its last chunk completes it', async (bench) => {
    const { ingest, publish, put, text } = bench
    const { manifest, digests } = mapOf('a', 'b', 'a', 'c')
    const id = { placeId: '1', buildId: 'b' }
    const recorded = await publish({ manifest })
    assert.deepEqual(recorded, {
      ...id,
      outcome: 'incomplete',
      state: 'incomplete',
      digest: manifest.digest,
      size: 4,
      contentType: 'text/plain',
      chunks: 4,
      frozen: false,
      missing: [digests[0], digests[1], digests[3]],
      publishedAt: null,
    })
    assert.deepEqual(await put('b'), { stored: 1, existing: 0, rejected: [], completed: [] })
    assert.deepEqual(await put('b', 'c'), { stored: 1, existing: 1, rejected: [], completed: [] })
    const { outcome, ...rest } = recorded
    const missing = [digests[0]]
    assert.deepEqual(await publish({ manifest }), { ...recorded, missing })
    assert.deepEqual(await ingest.getMap(id), { ...rest, missing, frozenAt: null, pending: null })
    assert.equal(await ingest.getMapContent(id), undefined)
    const { completed, ...counts } = await put('a')
    assert.deepEqual(counts, { stored: 1, existing: 0, rejected: [] })
    const [published] = completed as [PublishedMap]
    assert.equal(completed.length, 1)
    const publishedAt = published.publishedAt
    assert.ok(publishedAt !== null)
    assert.deepEqual(published, { ...recorded, outcome: 'created', state: 'complete', missing: [], publishedAt })
    assert.deepEqual(await publish({ manifest }), { ...published, outcome: 'unchanged' })
    assert.equal(await text(), 'abac')
  }),

  check('one chunk is put, and says so', async ({ ingest, publish }) => {
    const { manifest } = mapOf('a', 'b')
    await publish({ manifest })
    const put = (text: string) => ingest.putChunk(chunk(text).digest, chunk(text).bytes)
    assert.deepEqual(await put('a'), { outcome: 'stored', completed: [] })
    assert.deepEqual(await put('a'), { outcome: 'existing', completed: [] })
    const { outcome, completed } = await put('b')
    assert.equal(outcome, 'stored')
    assert.deepEqual(
      completed.map((each) => [each.outcome, each.digest]),
      [['created', manifest.digest]],
    )
    assert.deepEqual(await put('b'), { outcome: 'existing', completed: [] })
    assert.deepEqual(Buffer.from((await ingest.getChunk(chunk('b').digest)) ?? ''), Buffer.from('b'))
  }),

  check('a chunk with a wrong digest, too large, or without a manifest is refused', async (bench) => {
    const { ingest, publish } = bench
    const large = Buffer.alloc(1_048_577)
    await publish({ manifest: mapOf('a', 'b').manifest })
    const put = (digest: Digest, bytes: Uint8Array) => ingest.putChunk(digest, bytes)
    await assertRefused(put(chunk('a').digest, Buffer.from('b')), 'digest-mismatch')
    await assertRefused(put(chunk('c').digest, Buffer.from('c')), 'chunk-undeclared')
    await assertRefused(put(digestOf(large), large), 'chunk-too-large', { limit: 1_048_576 })
    const { rejected, ...counts } = await ingest.putChunks([
      chunk('a'),
      chunk('c'),
      { digest: chunk('b').digest, bytes: Buffer.from('x') },
      { digest: 'sha256:ABC', bytes: Buffer.from('x') },
      { digest: digestOf(), bytes: Buffer.alloc(0) },
      { digest: digestOf(large), bytes: large },
    ])
    assert.deepEqual(counts, { stored: 1, existing: 0, completed: [] })
    assert.deepEqual(
      rejected.map(({ index, digest, issues }) => [index, digest, issues[0]?.code, issues[0]?.path]),
      [
        [1, chunk('c').digest, 'undeclared', '/digest'],
        [2, chunk('b').digest, 'digest_mismatch', '/digest'],
        [3, null, 'invalid_format', '/digest'],
        [4, digestOf(), 'too_short', ''],
        [5, digestOf(large), 'too_long', ''],
      ],
    )
  }),

  check('a chunk of 1 MiB is taken', async ({ ingest, publish }) => {
    const bytes = Buffer.alloc(1_048_576, 'x')
    const chunks = [{ digest: digestOf(bytes), size: bytes.length }]
    const manifest = { contentType: 'a/b', size: bytes.length, digest: digestOf(bytes), chunks }
    await publish({ manifest })
    const { completed } = await ingest.putChunk(digestOf(bytes), bytes)
    assert.equal(completed.length, 1)
    const content = await ingest.getMapContent({ placeId: '1', buildId: 'b' })
    assert.ok(content && (await bytesOf(content)).equals(bytes))
  }),

  check('the same bytes cut otherwise are the same map', async ({ publish, put }) => {
    await publish({ manifest: mapOf('ab', 'c').manifest })
    await put('ab', 'c')
    const { outcome, missing, chunks } = await publish({ manifest: mapOf('a', 'bc').manifest })
    assert.deepEqual([outcome, missing, chunks], ['unchanged', [], 2])
    const { manifest } = mapOf('ab', 'c')
    const other = await publish({ manifest: { ...manifest, contentType: 'text/html' } })
    assert.equal(other.outcome, 'replaced', 'as another type it is another map')
  }),

  check('chunks that the project has are not asked for again', async ({ publish, put, text }) => {
    await publish({ manifest: mapOf('a', 'b', 'c').manifest })
    await put('a', 'b', 'c')
    const next = await publish({ buildId: 'next', manifest: mapOf('a', 'x', 'c').manifest })
    assert.deepEqual([next.outcome, next.missing], ['incomplete', [chunk('x').digest]])
    await put('x')
    assert.equal(await text({ buildId: 'next' }), 'axc')
    const { outcome } = await publish({ buildId: 'other', manifest: mapOf('x', 'b').manifest })
    assert.equal(outcome, 'created', 'one that finds all its chunks there')
    assert.equal(await text({ buildId: 'other' }), 'xb')
  }),

  check('an empty map is one of no chunks', async ({ publish, text }) => {
    const manifest = { contentType: 'text/plain', size: 0, digest: digestOf(), chunks: [] }
    assert.equal((await publish({ manifest })).outcome, 'created')
    assert.equal(await text(), '')
  }),

  check('a manifest whose digest is wrong is dropped by its last chunk, which says so', async (bench) => {
    const { ingest, publish, put } = bench
    const manifest = { ...mapOf('a', 'b').manifest, digest: digestOf(Buffer.from('wrong')) }
    await publish({ manifest })
    await put('a')
    const { stored, completed } = await put('b')
    assert.equal(stored, 1)
    const [dropped] = completed as [PublishedMap]
    assert.deepEqual([dropped.outcome, dropped.state, dropped.publishedAt], ['incomplete', 'incomplete', null])
    assert.deepEqual(
      dropped.issues?.map(({ code, path }) => [code, path]),
      [['digest_mismatch', '/manifest/digest']],
    )
    assert.equal(await ingest.getMap({ placeId: '1', buildId: 'b' }), undefined)
    assert.deepEqual((await put('a')).rejected[0]?.issues[0]?.code, 'undeclared')
  }),

  check('a manifest that is wrong about chunks that are there is refused', async ({ publish, put, text }) => {
    await publish({ map: 'before' })
    await publish({ placeId: '2', manifest: mapOf('a', 'bb').manifest })
    await put('a', 'bb')
    const { manifest } = mapOf('bb', 'a')
    const wrongDigest = { ...manifest, digest: digestOf() }
    const wrongSizes = { ...manifest, chunks: manifest.chunks.map((each, i) => ({ ...each, size: i + 1 })) }
    for (const each of [wrongDigest, wrongSizes]) {
      await assertRefused(publish({ manifest: each }, { dryRun: true }), 'digest-mismatch')
      await assertRefused(publish({ manifest: each }), 'digest-mismatch')
    }
    assert.equal(await text(), '"before"')
    assert.equal((await publish({ manifest })).outcome, 'replaced')
  }),

  check('while a replacement is incomplete, the complete map stays', async (bench) => {
    const { ingest, publish, put, text } = bench
    const first = await publish({ map: 'first' })
    const { manifest } = mapOf('a', 'b')
    const recorded = await publish({ manifest })
    assert.equal(recorded.outcome, 'incomplete')
    await put('a')
    const { digest, size, contentType } = manifest
    const { outcome, ...status } = first
    assert.deepEqual(await ingest.getMap({ placeId: '1', buildId: 'b' }), {
      ...status,
      frozenAt: null,
      pending: { digest, size, contentType, chunks: 2, missing: [chunk('b').digest] },
    })
    assert.equal(await text(), '"first"')
    assert.equal((await publish({ map: 'first' })).outcome, 'unchanged')
    const { completed } = await put('b')
    assert.equal(completed[0]?.outcome, 'replaced')
    assert.equal(await text(), 'ab')
  }),

  check('what is published later wins over a manifest that waits', async ({ publish, put, text }) => {
    await publish({ manifest: mapOf('a', 'b').manifest })
    await publish({ manifest: mapOf('b', 'c').manifest })
    assert.equal((await put('a')).rejected.length, 1)
    await publish({ map: 'last' })
    assert.equal((await put('b', 'c')).rejected.length, 2)
    assert.equal(await text(), '"last"')
  }),

  check('the first stored event of a build freezes its maps permanently', async (bench) => {
    const { ingest, publish, submit, event, text } = bench
    const first = await publish({ map: 'first' })
    await publish({ placeId: '2', map: 'second' })
    await publish({ buildId: 'other', map: 'other' })
    await submit(event('e', { buildId: 'b', placeId: '1' }))
    assert.deepEqual(await publish({ map: 'first' }), { ...first, outcome: 'unchanged', frozen: true })
    const refused = await assertRefused(publish({ map: 'corrected' }), 'map-frozen')
    for (const told of [first.digest, digestOf(canonicalJson('corrected')), 'buildId', '"b"']) {
      assert.ok(refused.message.includes(told), `${refused.message} tells ${told}`)
    }
    await assertRefused(publish({ placeId: '2', map: 'corrected' }), 'map-frozen')
    await assertRefused(publish({ manifest: mapOf('x').manifest }), 'map-frozen')
    const manifest = { ...mapOf('"first"').manifest, contentType: 'text/plain' }
    await assertRefused(publish({ manifest }), 'map-frozen')
    assert.equal(await text(), '"first"')
    assert.equal(await text({ placeId: '2' }), '"second"')
    const status = await ingest.getMap({ placeId: '1', buildId: 'b' })
    assert.deepEqual([status?.frozen, typeof status?.frozenAt, status?.pending], [true, 'string', null])
    assert.equal((await ingest.getMapContent({ placeId: '1', buildId: 'b' }))?.frozen, true)
    assert.equal((await publish({ buildId: 'other', map: 'corrected' })).outcome, 'replaced')
    assert.equal((await publish({ buildId: 'b-2', map: 'corrected' })).outcome, 'created')
  }),

  check('rejected and duplicate events freeze nothing', async ({ publish, submit, event }) => {
    await submit(event('e'))
    await publish({ map: 'first' })
    const { duplicates, rejected } = await submit(event('e', { buildId: 'b' }), event('f', { buildId: 'b', type: 5 }))
    assert.deepEqual([duplicates, rejected.length], [1, 1])
    const { outcome, frozen } = await publish({ map: 'second' })
    assert.deepEqual([outcome, frozen], ['replaced', false])
  }),

  check('an incomplete first map is pinned by the freeze, and completes', async (bench) => {
    const { publish, put, submit, event, text } = bench
    const { manifest } = mapOf('a', 'b')
    await publish({ manifest })
    await put('a')
    await submit(event('e', { buildId: 'b' }))
    await assertRefused(publish({ map: 'other' }), 'map-frozen')
    const again = await publish({ manifest })
    assert.deepEqual([again.outcome, again.frozen, again.missing], ['incomplete', true, [chunk('b').digest]])
    const { completed } = await put('b')
    assert.deepEqual([completed[0]?.outcome, completed[0]?.frozen], ['created', true])
    assert.equal(await text(), 'ab')
    assert.equal((await publish({ manifest })).outcome, 'unchanged')
  }),

  check('a half-uploaded replacement is void once the build freezes', async (bench) => {
    const { ingest, publish, put, submit, event, text } = bench
    const { manifest } = mapOf('a', 'b')
    await publish({ map: 'first' })
    await publish({ manifest })
    await put('a')
    await submit(event('e', { buildId: 'b' }))
    assert.deepEqual((await put('b')).rejected[0]?.issues[0]?.code, 'undeclared')
    await assertRefused(publish({ manifest }), 'map-frozen')
    assert.equal((await ingest.getMap({ placeId: '1', buildId: 'b' }))?.pending, null)
    assert.equal(await text(), '"first"')
  }),

  check('a first map may come after the events, once', async ({ publish, put, submit, event, text }) => {
    await submit(event('e', { buildId: 'b' }))
    const { outcome, frozen } = await publish({ map: 'first' })
    assert.deepEqual([outcome, frozen], ['created', true])
    await assertRefused(publish({ map: 'second' }), 'map-frozen')
    assert.equal((await publish({ map: 'first' })).outcome, 'unchanged')
    await publish({ placeId: '2', manifest: mapOf('a').manifest })
    await assertRefused(publish({ placeId: '2', manifest: mapOf('b').manifest }), 'map-frozen')
    await put('a')
    assert.equal(await text({ placeId: '2' }), 'a')
  }),

  check('a publication is made only if its preconditions hold', async ({ publish, text }) => {
    const other = digestOf()
    await assertRefused(publish({ map: 'first' }, { ifMatch: other }), 'precondition-failed')
    const { digest, outcome } = await publish({ map: 'first' }, { ifNoneMatch: '*' })
    assert.equal(outcome, 'created')
    await assertRefused(publish({ map: 'second' }, { ifNoneMatch: '*' }), 'precondition-failed')
    await assertRefused(publish({ map: 'first' }, { ifNoneMatch: '*' }), 'precondition-failed')
    await assertRefused(publish({ map: 'second' }, { ifMatch: other }), 'precondition-failed')
    assert.equal(await text(), '"first"')
    assert.equal((await publish({ map: 'first' }, { ifMatch: digest })).outcome, 'unchanged')
    assert.equal((await publish({ map: 'second' }, { ifMatch: digest })).outcome, 'replaced')
    const { manifest } = mapOf('a')
    await assertRefused(publish({ manifest }, { ifMatch: digest }), 'precondition-failed')
  }),

  check('a manifest that waits is no reason for ifNoneMatch to refuse', async ({ publish, put }) => {
    const { manifest } = mapOf('a')
    for (const _ of range(2)) assert.equal((await publish({ manifest }, { ifNoneMatch: '*' })).outcome, 'incomplete')
    assert.equal((await put('a')).completed[0]?.outcome, 'created')
  }),

  check('a dry run decides everything and writes nothing', async (bench) => {
    const { ingest, publish, put, submit, event } = bench
    const dry = (publication: object) => publish(publication, { dryRun: true })
    const { manifest } = mapOf('a', 'b')
    const { outcome, state, digest } = await dry({ map: 'first' })
    assert.deepEqual([outcome, state, digest], ['created', 'complete', digestOf(canonicalJson('first'))])
    const incomplete = await dry({ manifest })
    assert.deepEqual([incomplete.outcome, incomplete.missing.length], ['incomplete', 2])
    assert.equal((await put('a')).rejected.length, 1)
    assert.deepEqual(await ingest.listMaps(), { maps: [], next: null })
    await publish({ map: 'first' })
    assert.equal((await dry({ map: 'first' })).outcome, 'unchanged')
    assert.equal((await dry({ map: 'second' })).outcome, 'replaced')
    await publish({ placeId: '2', manifest })
    await put('a', 'b')
    const ready = await dry({ manifest })
    assert.deepEqual([ready.outcome, ready.state, ready.missing], ['replaced', 'complete', []])
    assert.equal((await dry({ placeId: '3', manifest })).outcome, 'created')
    await submit(event('e', { buildId: 'b' }))
    await assertRefused(dry({ map: 'second' }), 'map-frozen')
    assert.equal((await publish({ map: 'first' })).outcome, 'unchanged')
  }),

  check('an invalid publication is refused with its issues', async ({ ingest, publish }) => {
    const { manifest } = mapOf('a', 'b')
    const [first, second] = manifest.chunks
    const wrong: [object, IssueCode, string][] = [
      [{ placeId: undefined, map: 1 }, 'required', '/placeId'],
      [{ placeId: '', map: 1 }, 'too_short', '/placeId'],
      [{ placeId: 1.5, map: 1 }, 'invalid_type', '/placeId'],
      [{ placeId: 'x'.repeat(129), map: 1 }, 'too_long', '/placeId'],
      [{ buildId: undefined, map: 1 }, 'required', '/buildId'],
      [{ buildId: 5, map: 1 }, 'invalid_type', '/buildId'],
      [{ buildId: 'a\n', map: 1 }, 'invalid_format', '/buildId'],
      [{}, 'required', ''],
      [{ map: 1, manifest }, 'not_allowed', ''],
      [{ map: { a: ['\ud800'] } }, 'invalid_format', '/map/a/0'],
      [{ manifest: [] }, 'not_object', '/manifest'],
      [{ manifest: { ...manifest, contentType: 'json' } }, 'invalid_format', '/manifest/contentType'],
      [{ manifest: { ...manifest, contentType: undefined } }, 'required', '/manifest/contentType'],
      [{ manifest: { ...manifest, digest: 'sha256:12' } }, 'invalid_format', '/manifest/digest'],
      [{ manifest: { ...manifest, size: 3 } }, 'out_of_range', '/manifest/size'],
      [{ manifest: { ...manifest, size: '2' } }, 'invalid_type', '/manifest/size'],
      [{ manifest: { ...manifest, chunks: {} } }, 'invalid_type', '/manifest/chunks'],
      [{ manifest: { ...manifest, chunks: [first, 5] } }, 'not_object', '/manifest/chunks/1'],
      [
        { manifest: { ...manifest, chunks: [first, { ...second, size: 0 }] } },
        'out_of_range',
        '/manifest/chunks/1/size',
      ],
      [{ manifest: { ...manifest, chunks: [{ size: 1 }] } }, 'required', '/manifest/chunks/0/digest'],
    ]
    for (const [publication, code, path] of wrong) {
      const { issues } = await assertRefused(publish(publication), 'invalid-publication')
      assert.deepEqual([issues?.[0]?.code, issues?.[0]?.path], [code, path], JSON.stringify(publication))
    }
    assert.deepEqual(await ingest.listMaps(), { maps: [], next: null })
  }),

  check('maps are listed in pages, for a build and for a place', async ({ ingest, publish }) => {
    const ids = ['a', 'b'].flatMap((buildId) => ['1', '2', 'é'].map((placeId) => ({ placeId, buildId })))
    for (const id of [...ids].reverse()) await publish({ ...id, map: id })
    await publish({ placeId: '2', buildId: 'a', manifest: mapOf('x', 'y').manifest })
    const all = await ingest.listMaps()
    assert.equal(all.next, null)
    assert.deepEqual(
      all.maps.map(({ placeId, buildId }) => ({ placeId, buildId })),
      ids,
    )
    for (const status of all.maps) assert.deepEqual(await ingest.getMap(status), status)
    for (const limit of [1, 4, 6]) {
      const seen = []
      for (let cursor: string | null = ''; cursor !== null; ) {
        const page = await ingest.listMaps({ limit, ...(cursor && { cursor }) })
        assert.ok(page.maps.length === limit || page.next === null)
        seen.push(...page.maps)
        cursor = page.next
      }
      assert.deepEqual(seen, all.maps)
    }
    assert.deepEqual((await ingest.listMaps({ buildId: 'b' })).maps, all.maps.slice(3))
    assert.deepEqual((await ingest.listMaps({ placeId: 'é' })).maps, [all.maps[2], all.maps[5]])
    assert.deepEqual(await ingest.listMaps({ buildId: 'c' }), { maps: [], next: null })
    await assertRefused(ingest.listMaps({ cursor: 'no cursor' }), 'invalid-cursor')
  }),

  check('any part of a map is read', async ({ ingest, publish, put }) => {
    await publish({ manifest: mapOf('abc', 'd', 'efgh').manifest })
    await put('abc', 'd', 'efgh')
    const content = await ingest.getMapContent({ placeId: '1', buildId: 'b' })
    assert.ok(content)
    for (const start of range(9)) {
      for (const end of range(9 - start).map((i) => start + i)) {
        assert.equal((await bytesOf(content, start, end)).toString(), 'abcdefgh'.slice(start, end), `${start}–${end}`)
      }
      assert.equal((await bytesOf(content, start)).toString(), 'abcdefgh'.slice(start))
    }
  }),

  check('of concurrent publications of one map exactly one creates it', async ({ publish }) => {
    const outcomes = await Promise.all(range(8).map(async () => (await publish({ map: { a: 1 } })).outcome))
    assert.deepEqual(outcomes.sort(), ['created', ...range(7).map(() => 'unchanged')])
  }),

  check('chunks that are put at once complete their map', async ({ publish, put, text }) => {
    const texts = range(40).map((i) => `chunk ${i} `)
    const { manifest } = mapOf(...texts)
    await publish({ manifest })
    const results = await Promise.all(texts.map((each) => put(each)))
    assert.ok(results.every(({ stored }) => stored === 1))
    const completed = results.flatMap((each) => each.completed)
    assert.ok(completed.length >= 1)
    for (const { outcome, digest } of completed) assert.deepEqual([outcome, digest], ['created', manifest.digest])
    assert.equal(await text(), texts.join(''))
  }),

  check('publications and events that race agree on what is frozen', async (bench) => {
    const { ingest, publish, submit, event } = bench
    await Promise.all(
      range(20).map(async (i) => {
        const buildId = `race-${i}`
        let answered = false
        const publishing = range(4).map(async (n) => {
          const before = answered
          const published = await publish({ buildId, map: n }).catch((error: unknown) => {
            assert.ok(isRefusal(error) && error.code === 'map-frozen')
          })
          if (before) assert.ok(!published || published.frozen)
        })
        const freezing = submit(event(buildId, { buildId })).then(async () => {
          answered = true
          return (await ingest.getMap({ placeId: '1', buildId }))?.digest
        })
        const [atAnswer] = await Promise.all([freezing, ...publishing])
        const last = await ingest.getMap({ placeId: '1', buildId })
        assert.equal(last?.frozen, true, 'there is a map: the first one is accepted late')
        if (atAnswer !== undefined) assert.equal(last?.digest, atAnswer, 'what was frozen stays')
        await assertRefused(publish({ buildId, map: 'late' }), 'map-frozen')
      }),
    )
  }),
]

/** An opened Ingest, and what most checks do with it: for place `1` of build `b`, unless they say otherwise. */
interface Bench {
  ingest: Ingest
  close(): Promise<void>
  projectId: string
  event(eventId: string, members?: object): object
  submit(...events: unknown[]): Promise<BatchResult>
  events(options?: ReadEventsOptions): Promise<{ cursor: string; receivedAt: number; text: string }[]>
  publish(publication: object, options?: PublishOptions): Promise<PublishedMap>
  /** Puts chunks of these texts. */
  put(...texts: string[]): ReturnType<Ingest['putChunks']>
  /** The complete map. */
  text(id?: { placeId?: string; buildId?: string }): Promise<string>
}

function isolatedCheck(name: string, use: Parameters<typeof check>[1]): IngestCheck {
  return { ...check(name, use), isolated: true }
}

function check(name: string, use: (bench: Bench, open: OpenIngest) => Promise<void>): IngestCheck {
  return {
    name,
    isolated: false,
    async run(open) {
      const opened = await open()
      try {
        await use(benchOf(opened), open)
      } finally {
        await opened.close()
      }
    },
  }
}

function benchOf({ ingest, close }: Awaited<ReturnType<OpenIngest>>): Bench {
  const { projectId } = ingest
  const id = { placeId: '1', buildId: 'b' }
  return {
    ingest,
    close,
    projectId,
    event: (eventId, members) => ({ projectId, eventId, ...members }),
    submit: (...events) => ingest.submitBatch({ events: events as never[] }),
    async events(options) {
      const events = []
      for await (const { cursor, receivedAt, bytes } of ingest.readEvents(options)) {
        events.push({ cursor, receivedAt, text: Buffer.from(bytes).toString() })
      }
      return events
    },
    publish: (publication, options) => ingest.publishMap({ ...id, ...publication } as never, options),
    put: (...texts) => ingest.putChunks(texts.map(chunk)),
    async text(other) {
      const content = await ingest.getMapContent({ ...id, ...other })
      assert.ok(content, 'there is no complete map')
      return (await bytesOf(content)).toString()
    },
  }
}

function idOf({ text }: { text: string }): string {
  return (JSON.parse(text) as { eventId: string }).eventId
}

function chunk(text: string): ChunkUpload {
  const bytes = Buffer.from(text)
  return { digest: digestOf(bytes), bytes }
}

/** A map that is cut into these texts. */
function mapOf(...texts: string[]): { manifest: Manifest; digests: Digest[] } {
  const chunks = texts.map((text) => ({ digest: chunk(text).digest, size: Buffer.byteLength(text) }))
  const whole = Buffer.from(texts.join(''))
  return {
    manifest: { contentType: 'text/plain', size: whole.length, digest: digestOf(whole), chunks },
    digests: chunks.map(({ digest }) => digest),
  }
}

async function bytesOf(content: MapContent, ...range: [start?: number, end?: number]): Promise<Buffer> {
  const parts: Uint8Array[] = []
  for await (const part of content.bytes(...range)) parts.push(part)
  return Buffer.concat(parts)
}

async function assertRefused(
  promise: Promise<unknown>,
  code: ErrorCode,
  details: { limit?: number; actual?: number } = {},
): Promise<IngestError> {
  const error = await promise.then(
    () => assert.fail(`it is not refused with ${code}`),
    (reason: unknown) => reason,
  )
  assert.ok(isRefusal(error), String(error))
  assert.equal(error.code, code)
  for (const [name, value] of Object.entries(details)) assert.equal(error[name as 'limit'], value, name)
  return error
}

/** By name, because who runs the checks may have loaded the class from elsewhere. */
function isRefusal(error: unknown): error is IngestError {
  return error instanceof Error && error.name === 'IngestError'
}

function range(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i)
}
