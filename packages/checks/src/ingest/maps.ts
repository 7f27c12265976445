import assert from 'node:assert/strict'
import { canonicalJson, type Digest, digestOf, type IssueCode, type PublishedMap } from '@ingest/core'
import { chunk, digests, manifestOf, mapIdOf } from '../store/sample-maps.ts'
import { range } from '../store/store-check.ts'
import { assertRefused, bytesOf, check, type IngestCheck, isRefusal } from './ingest-check.ts'

/** Publishing, completing, freezing and reading maps. */
export const publishingChecks: readonly IngestCheck[] = [
  check('a full map is created, and read back as its canonical bytes', async ({ ingest, publish }) => {
    const id = { placeId: '1', buildId: 'b' }
    assert.equal(await ingest.getMap(id), undefined)
    assert.equal(await ingest.getMapContent(id), undefined)
    assert.equal(await ingest.getChunk(digestOf()), undefined)
    assert.deepEqual(await ingest.listMaps(), { maps: [], next: null })
    const map = { z: [1, 2.5, -0, 1e21], a: { é: 'ü', '': null }, '😀': true }
    const bytes = canonicalJson(map)
    const published = await publish({ map })
    const { publishedAt, ...rest } = published
    const outline = { digest: digestOf(bytes), size: bytes.length, contentType: 'application/json', chunks: 1 }
    const status = { ...id, state: 'complete', ...outline, frozen: false, missing: [] }
    assert.deepEqual(rest, { outcome: 'created', ...status })
    assert.ok(Number.isSafeInteger(publishedAt))
    assert.deepEqual(await ingest.getMap(id), { ...status, publishedAt, frozenAt: null, pending: null })
    const content = await ingest.getMapContent(id)
    assert.ok(content)
    assert.deepEqual(
      [content.placeId, content.buildId, content.digest, content.size, content.contentType, content.frozen],
      ['1', 'b', outline.digest, outline.size, outline.contentType, false],
    )
    assert.deepEqual(await bytesOf(content), bytes)
  }),

  check('any JSON value is a map, and so are no bytes', async ({ publish, text }) => {
    const manifest = { contentType: 'text/plain', size: 0, digest: digestOf(), chunks: [] }
    assert.equal((await publish({ manifest })).outcome, 'created')
    assert.equal(await text(), '')
    for (const [i, map] of [null, false, 0, '', [], {}].entries()) {
      const { outcome } = await publish({ map, buildId: `b${i}` })
      assert.equal(outcome, 'created')
      assert.equal(await text({ buildId: `b${i}` }), JSON.stringify(map))
    }
  }),

  check('the order of members and an integer placeId do not change a map', async (bench) => {
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

  check('each place of each build has a map of its own', async ({ publish, text }) => {
    const ids = ['1', '2', 'a/b?c&d=é 😀'].flatMap((placeId) =>
      ['b', 'B', 'c%20+'].map((buildId) => ({ placeId, buildId })),
    )
    for (const id of ids) assert.equal((await publish({ ...id, map: id })).outcome, 'created')
    for (const id of ids) assert.deepEqual(JSON.parse(await text(id)), id)
  }),

  check('publishing a manifest returns its missing chunks, and the last one completes it', async (bench) => {
    const { ingest, publish, put, text } = bench
    const manifest = manifestOf('a', 'b', 'a', 'c')
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
      missing: digests('a', 'b', 'c'),
      publishedAt: null,
    })
    assert.deepEqual(await put('b'), { stored: 1, existing: 0, rejected: [], completed: [] })
    assert.deepEqual(await put('b', 'c'), { stored: 1, existing: 1, rejected: [], completed: [] })
    const { outcome, ...rest } = recorded
    const missing = digests('a')
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

  check('one chunk, of up to 1 MiB, is stored and reported', async ({ ingest, publish, text }) => {
    const large = 'x'.repeat(1_048_576)
    const manifest = manifestOf('a', large)
    await publish({ manifest })
    const put = (text: string) => ingest.putChunk(chunk(text).digest, chunk(text).bytes)
    assert.deepEqual(await put('a'), { outcome: 'stored', completed: [] })
    assert.deepEqual(await put('a'), { outcome: 'existing', completed: [] })
    const { outcome, completed } = await put(large)
    assert.deepEqual([outcome, completed.length], ['stored', 1])
    assert.deepEqual([completed[0]?.outcome, completed[0]?.digest], ['created', manifest.digest])
    assert.deepEqual(await put(large), { outcome: 'existing', completed: [] })
    assert.ok((await text()) === `a${large}`)
    assert.deepEqual(Buffer.from((await ingest.getChunk(chunk('a').digest)) ?? ''), Buffer.from('a'))
  }),

  check('a chunk with a wrong digest, too large, or without a manifest is refused', async (bench) => {
    const { ingest, publish } = bench
    const large = Buffer.alloc(1_048_577)
    await publish({ manifest: manifestOf('a', 'b') })
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

  check('the same bytes in other chunks are the same map', async ({ publish, put }) => {
    await publish({ manifest: manifestOf('ab', 'c') })
    await put('ab', 'c')
    const { outcome, missing, chunks } = await publish({ manifest: manifestOf('a', 'bc') })
    assert.deepEqual([outcome, missing, chunks], ['unchanged', [], 2])
    const manifest = manifestOf('ab', 'c')
    const other = await publish({ manifest: { ...manifest, contentType: 'text/html' } })
    assert.equal(other.outcome, 'replaced', 'as another type it is another map')
  }),

  check('stored chunks are not reported as missing', async ({ publish, put, text }) => {
    await publish({ manifest: manifestOf('a', 'b', 'c') })
    await put('a', 'b', 'c')
    const next = await publish({ buildId: 'next', manifest: manifestOf('a', 'x', 'c') })
    assert.deepEqual([next.outcome, next.missing], ['incomplete', [chunk('x').digest]])
    await put('x')
    assert.equal(await text({ buildId: 'next' }), 'axc')
    const { outcome } = await publish({ buildId: 'other', manifest: manifestOf('x', 'b') })
    assert.equal(outcome, 'created', 'one that finds all its chunks there')
    assert.equal(await text({ buildId: 'other' }), 'xb')
  }),

  check('the last chunk of a manifest with a wrong digest drops it and returns the issues', async (bench) => {
    const { ingest, publish, put } = bench
    const manifest = { ...manifestOf('a', 'b'), digest: digestOf(Buffer.from('wrong')) }
    await publish({ manifest })
    await put('a')
    const { stored, completed } = await put('b')
    assert.equal(stored, 1)
    const [dropped] = completed as [PublishedMap]
    assert.deepEqual([dropped.outcome, dropped.state, dropped.publishedAt], ['incomplete', 'incomplete', null])
    const [issue] = dropped.issues ?? []
    assert.deepEqual([issue?.code, issue?.path], ['digest_mismatch', '/manifest/digest'])
    assert.equal(await ingest.getMap({ placeId: '1', buildId: 'b' }), undefined)
    assert.deepEqual((await put('a')).rejected[0]?.issues[0]?.code, 'undeclared')
  }),

  check('a manifest that does not match stored chunks is refused', async ({ publish, put, text }) => {
    await publish({ map: 'before' })
    await publish({ placeId: '2', manifest: manifestOf('a', 'bb') })
    await put('a', 'bb')
    const manifest = manifestOf('bb', 'a')
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
    const manifest = manifestOf('a', 'b')
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

  check('a later publication replaces a pending manifest', async ({ publish, put, text }) => {
    await publish({ manifest: manifestOf('a', 'b') })
    await publish({ manifest: manifestOf('b', 'c') })
    assert.equal((await put('a')).rejected.length, 1)
    await publish({ map: 'last' })
    assert.equal((await put('b', 'c')).rejected.length, 2)
    assert.equal(await text(), '"last"')
  }),

  check('the first stored event of a build freezes its maps permanently', async (bench) => {
    const { ingest, publish, submit, event, text } = bench
    await submit(event('earlier'))
    await publish({ map: 'before' })
    await submit(event('earlier', { buildId: 'b' }), event('rejected', { buildId: 'b', type: 5 }))
    await submit(event('repeated'), event('repeated', { buildId: 'b' }))
    const first = await publish({ map: 'first' })
    assert.deepEqual(
      [first.outcome, first.frozen],
      ['replaced', false],
      'duplicates and rejected events freeze nothing',
    )
    await publish({ placeId: '2', map: 'second' })
    await publish({ buildId: 'other', map: 'other' })
    await submit(event('e', { buildId: 'b', placeId: '1' }))
    assert.deepEqual(await publish({ map: 'first' }), { ...first, outcome: 'unchanged', frozen: true })
    const refused = await assertRefused(publish({ map: 'corrected' }), 'map-frozen')
    for (const part of [first.digest, digestOf(canonicalJson('corrected')), 'buildId', '"b"']) {
      assert.ok(refused.message.includes(part), `${refused.message} contains ${part}`)
    }
    await assertRefused(publish({ placeId: '2', map: 'corrected' }), 'map-frozen')
    await assertRefused(publish({ manifest: manifestOf('x') }), 'map-frozen')
    const manifest = { ...manifestOf('"first"'), contentType: 'text/plain' }
    await assertRefused(publish({ manifest }), 'map-frozen')
    assert.equal(await text(), '"first"')
    assert.equal(await text({ placeId: '2' }), '"second"')
    const status = await ingest.getMap({ placeId: '1', buildId: 'b' })
    assert.deepEqual([status?.frozen, typeof status?.frozenAt, status?.pending], [true, 'number', null])
    assert.equal((await ingest.getMapContent({ placeId: '1', buildId: 'b' }))?.frozen, true)
    assert.equal((await publish({ buildId: 'other', map: 'corrected' })).outcome, 'replaced')
    assert.equal((await publish({ buildId: 'b-2', map: 'corrected' })).outcome, 'created')
  }),

  check('an incomplete first map is pinned by the freeze, and completes', async (bench) => {
    const { publish, put, submit, event, text } = bench
    const manifest = manifestOf('a', 'b')
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

  check('a freeze voids a pending replacement', async (bench) => {
    const { ingest, publish, put, submit, event, text } = bench
    const manifest = manifestOf('a', 'b')
    await publish({ map: 'first' })
    await publish({ manifest })
    await put('a')
    await submit(event('e', { buildId: 'b' }))
    assert.deepEqual((await put('b')).rejected[0]?.issues[0]?.code, 'undeclared')
    await assertRefused(publish({ manifest }), 'map-frozen')
    assert.equal((await ingest.getMap({ placeId: '1', buildId: 'b' }))?.pending, null)
    assert.equal(await text(), '"first"')
  }),

  check('a frozen build accepts one first map for a place', async ({ publish, put, submit, event, text }) => {
    await submit(event('e', { buildId: 'b' }))
    const { outcome, frozen } = await publish({ map: 'first' })
    assert.deepEqual([outcome, frozen], ['created', true])
    await assertRefused(publish({ map: 'second' }), 'map-frozen')
    assert.equal((await publish({ map: 'first' })).outcome, 'unchanged')
    await publish({ placeId: '2', manifest: manifestOf('a') })
    await assertRefused(publish({ placeId: '2', manifest: manifestOf('b') }), 'map-frozen')
    await put('a')
    assert.equal(await text({ placeId: '2' }), 'a')
  }),

  check('a publication is made only if its preconditions hold', async ({ publish, put, text }) => {
    const pending = { placeId: '2', manifest: manifestOf('pending') }
    for (const _ of range(2)) assert.equal((await publish(pending, { ifNoneMatch: '*' })).outcome, 'incomplete')
    assert.equal((await put('pending')).completed[0]?.outcome, 'created')
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
    const manifest = manifestOf('a')
    await assertRefused(publish({ manifest }, { ifMatch: digest }), 'precondition-failed')
  }),

  check('a dry run decides everything and writes nothing', async (bench) => {
    const { ingest, publish, put, submit, event } = bench
    const dry = (publication: object) => publish(publication, { dryRun: true })
    const manifest = manifestOf('a', 'b')
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
    const manifest = manifestOf('a', 'b')
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
    await publish({ placeId: '2', buildId: 'a', manifest: manifestOf('x', 'y') })
    const all = await ingest.listMaps()
    assert.equal(all.next, null)
    assert.deepEqual(all.maps.map(mapIdOf), ids)
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
    await publish({ manifest: manifestOf('abc', 'd', 'efgh') })
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

  check('concurrent chunks complete their map', async ({ publish, put, text }) => {
    const texts = range(40).map((i) => `chunk ${i} `)
    const manifest = manifestOf(...texts)
    await publish({ manifest })
    const results = await Promise.all(texts.map((each) => put(each)))
    assert.ok(results.every(({ stored }) => stored === 1))
    const completed = results.flatMap((each) => each.completed)
    assert.ok(completed.length >= 1)
    for (const { outcome, digest } of completed) assert.deepEqual([outcome, digest], ['created', manifest.digest])
    assert.equal(await text(), texts.join(''))
  }),

  check('racing publications and events agree on the frozen map', async (bench) => {
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
