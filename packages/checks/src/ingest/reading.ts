import assert from 'node:assert/strict'
import { type EventBatch, followEvents, type ReadBatchesOptions, type ReadEventsOptions } from '@ingest/core'
import { filterNames } from '@ingest/core/internal'
import { range } from '../store/store-check.ts'
import { assertRefused, benchOf, check, type IngestCheck, idOf, isolatedCheck } from './ingest-check.ts'

async function batchesOf(source: AsyncIterable<EventBatch>): Promise<EventBatch[]> {
  const batches: EventBatch[] = []
  for await (const batch of source) batches.push(batch)
  return batches
}

/** Reading events, statistics and activity. */
export const readingChecks: readonly IngestCheck[] = [
  check('a cursor of another store and a modified cursor are refused', async (bench, open) => {
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

  check('events are filtered by type and build, and the limit counts matches', async ({ submit, event, events }) => {
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
    const invalid = [
      ...filterNames.map((name) => ({ [name]: '' })),
      { limit: -1 },
      { from: 0.5 },
      { to: Number.NaN },
      { waitMs: -1 },
    ]
    for (const options of invalid) await assertRefused(events(options), 'invalid-argument')
  }),

  check(
    'events are filtered by each known field, and an integer has the value of its decimal string',
    async (bench) => {
      const { ingest, submit, event, events } = bench
      for (const name of filterNames) {
        await submit(
          event(`${name} text`, { [name]: 'é "1"' }),
          event(`${name} digits`, { [name]: '1200' }),
          event(`${name} longer`, { [name]: '12001', properties: { [name]: '1200' } }),
          event(`${name} none`, { other: 1200 }),
        )
        const ids = async (value: string) => (await events({ [name]: value })).map(idOf)
        assert.deepEqual(await ids('é "1"'), [`${name} text`])
        assert.deepEqual(await ids('1200'), [`${name} digits`])
        // some of these fields must be strings
        await ingest.submitBatch({ events: [event(`${name} integer`, { [name]: 1200 })] as never[] })
        const exponential = `{"projectId":"${bench.projectId}","eventId":"${name} 1.2e3","${name}": 1.2e3}`
        await ingest.submitBatch(Buffer.from(`{"events":[${exponential}]}`))
        const isInteger = !['type', 'buildId'].includes(name)
        assert.deepEqual(await ids('1200'), [
          `${name} digits`,
          ...(isInteger ? [`${name} integer`, `${name} 1.2e3`] : []),
        ])
      }
      assert.deepEqual(await events({ playerId: '1200', sessionId: '1200' }), [])
    },
  ),

  check('batches have all events in order, within their limits, and end caught up', async (bench) => {
    const { ingest, submit, event, events } = bench
    const start = await ingest.lastCursor()
    assert.deepEqual(await batchesOf(ingest.readBatches()), [{ events: [], cursor: start, caughtUp: true }])
    for (const i of range(5)) await submit(event(`${i}`, { filler: 'x'.repeat(i * 100) }))
    const all = await events()
    const cursors = all.map(({ cursor }) => cursor)
    const sizes = all.map(({ text }) => Buffer.byteLength(text))
    const ends = async (options: ReadBatchesOptions) => {
      const batches = await batchesOf(ingest.readBatches(options))
      const read = batches.flatMap(({ events }) => events.map(({ cursor }) => cursor))
      assert.deepEqual(read, options.after === undefined ? cursors : cursors.slice(cursors.indexOf(options.after) + 1))
      assert.deepEqual(
        batches.map(({ caughtUp }) => caughtUp),
        batches.map((_, i) => i === batches.length - 1),
      )
      return batches.map(({ events, cursor }) => [events.length, cursors.indexOf(cursor)])
    }
    assert.deepEqual(await ends({}), [[5, 4]])
    assert.deepEqual(await ends({ eventsMax: 2 }), [
      [2, 1],
      [2, 3],
      [1, 4],
    ])
    assert.deepEqual(await ends({ eventsMax: 5 }), [
      [5, 4],
      [0, 4],
    ])
    const after = cursors[1] as string
    assert.deepEqual(await ends({ after, eventsMax: 2 }), [
      [2, 3],
      [1, 4],
    ])
    const two = (sizes[0] as number) + (sizes[1] as number)
    assert.deepEqual((await ends({ bytesMax: two }))[0], [2, 1])
    assert.deepEqual((await ends({ bytesMax: two - 1 }))[0], [1, 0])
    assert.equal((await ends({ bytesMax: 1 })).length, 5, 'an event over the limit has a batch of its own')
  }),

  check('the cursor of a batch is behind events that are filtered out', async ({ ingest, submit, event }) => {
    for (const i of range(6)) await submit(event(`${i}`, { playerId: i === 1 ? 7 : 8 }))
    const last = await ingest.lastCursor()
    const batches = await batchesOf(ingest.readBatches({ playerId: '7' }))
    assert.deepEqual(
      batches.map(({ events, cursor, caughtUp }) => [events.length, cursor, caughtUp]),
      [[1, last, true]],
    )
    const none = { events: [], cursor: last, caughtUp: true }
    assert.deepEqual(await batchesOf(ingest.readBatches({ type: 'none' })), [none])
    assert.deepEqual(await batchesOf(ingest.readBatches({ after: last })), [none])
    assert.deepEqual(await batchesOf(ingest.readBatches({ from: Date.now() + 3_600_000 })), [none])
  }),

  check('a consumer that leaves ends its read at once, also while it waits', async ({ ingest, submit, event }) => {
    await submit(event('a'))
    const after = await ingest.lastCursor()
    const waitMs = 600_000
    const batches = ingest.readBatches({ after, follow: true })[Symbol.asyncIterator]()
    // the first batch reports the end
    await batches.next()
    const readers: AsyncIterator<unknown>[] = [
      batches,
      ingest.readEvents({ after, waitMs })[Symbol.asyncIterator](),
      ingest.readEvents({ type: 'none', waitMs })[Symbol.asyncIterator](),
      followEvents(ingest, { after }),
    ]
    for (const reader of readers) {
      const pending = reader.next()
      await reader.return?.()
      assert.equal((await pending).done, true)
      assert.equal((await reader.next()).done, true)
    }
  }),

  check('batches that follow continue with what is stored, and report the end once', async (bench) => {
    const { ingest, submit, event, events } = bench
    const controller = new AbortController()
    await submit(event('a', { type: 'kill' }))
    const followed = ingest
      .readBatches({ follow: true, type: 'kill', maxWaitMs: 1, signal: controller.signal })
      [Symbol.asyncIterator]()
    const next = async () => {
      const { value } = (await followed.next()) as { value: EventBatch }
      return [value.events.map(({ cursor }) => cursor), value.cursor, value.caughtUp]
    }
    const [a] = (await events()).map(({ cursor }) => cursor)
    assert.deepEqual(await next(), [[a], a, true])
    const waiting = next()
    await submit(event('other'))
    await submit(event('b', { type: 'kill' }))
    const b = (await events())[2]?.cursor
    assert.deepEqual(await waiting, [[b], b, true])
    const ended = assert.rejects(followed.next(), { message: 'enough' })
    controller.abort(new Error('enough'))
    await ended
  }),

  check('options of batches out of range are refused', async ({ ingest }) => {
    for (const options of [
      { eventsMax: 0 },
      { eventsMax: 100_001 },
      { bytesMax: 0 },
      { bytesMax: 67_108_865 },
      { maxWaitMs: -1 },
      { maxWaitMs: 3_600_001 },
      { maxWaitMs: 0.5 },
      { follow: true, to: 1 },
      { playerId: '' },
      { from: Number.NaN },
    ]) {
      await assertRefused(batchesOf(ingest.readBatches(options)), 'invalid-argument')
    }
    await assertRefused(batchesOf(ingest.readBatches({ after: 'none' })), 'invalid-cursor')
  }),

  check('events are filtered by the time they were received', async ({ submit, event, events }) => {
    for (const i of range(5)) await submit(event(`${i}`, { type: i % 2 === 0 ? 'first' : 'other' }))
    const all = await events()
    const times = all.map(({ receivedAt }) => receivedAt)
    const sorted = times.toSorted((a, b) => a - b)
    assert.deepEqual(times, sorted, 'times never decrease')
    for (const time of times) {
      const [later, earlier] = [all.slice(times.indexOf(time)), all.slice(0, times.indexOf(time))]
      assert.deepEqual(await events({ from: time }), later)
      assert.deepEqual(await events({ to: time }), earlier)
      const first = later.filter(({ receivedAt, text }) => receivedAt === time && text.includes('"first"'))
      assert.deepEqual(await events({ from: time, to: time + 1, type: 'first' }), first)
    }
    assert.deepEqual(await events({ from: (times.at(-1) ?? 0) + 1 }), [])
  }),

  check('a read reports its progress, past filtered events too', async ({ submit, event, events }) => {
    for (const i of range(4)) await submit(event(`${i}`, { type: i === 1 ? 'wanted' : 'other' }))
    const all = await events()
    for (const type of ['wanted', 'none', undefined]) {
      const cursors: string[] = []
      await events({ ...(type && { type }), onProgress: (cursor) => void cursors.push(cursor) })
      assert.equal(cursors.at(-1), all.at(-1)?.cursor)
      await submit(event(`after ${type}`, { type: 'other' }))
      const [last] = await events({ after: cursors.at(-1) ?? '' })
      assert.equal(last && idOf(last), `after ${type}`)
      all.push(last as (typeof all)[number])
    }
  }),

  check('a long poll returns the next event, and ends at its time limit', async (bench) => {
    const { ingest, submit, event, events } = bench
    assert.deepEqual(await events({ waitMs: 1 }), [])
    await submit(event('old', { type: 'other' }))
    const after = await ingest.lastCursor()
    const found = events({ type: 'new', waitMs: 60_000 })
    await submit(event('no', { type: 'other' }))
    await submit(event('yes', { type: 'new' }))
    assert.deepEqual((await found).map(idOf), ['yes'])
    const atOnce = await events({ after, waitMs: 60_000 })
    assert.deepEqual(atOnce.map(idOf), ['no', 'yes'], 'stored events end a long poll at once')
    const cursors: string[] = []
    await events({ type: 'none', waitMs: 1, onProgress: (cursor) => void cursors.push(cursor) })
    assert.equal(cursors.at(-1), await ingest.lastCursor())
  }),

  check('a signal ends a long poll with its reason', async ({ events }) => {
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

  check('followEvents yields the events stored after a cursor', async (bench) => {
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

  check('statistics count stored events and report their times', async (bench) => {
    const { ingest, submit, event, events } = bench
    const nothing = { events: 0, batches: 0, bytes: 0, firstAt: null, lastAt: null, eventsPerSecond: 0 }
    assert.deepEqual(await ingest.getStats(), nothing)
    await submit(event('a'), event('b', { buildId: 'b1' }), event('c', { type: 5 }))
    await submit(event('b'), event('d', { buildId: 'b1' }))
    await submit(event('a'))
    const { bytes, eventsPerSecond, ...counts } = await ingest.getStats()
    const times = (await events()).map(({ receivedAt }) => receivedAt)
    assert.deepEqual(counts, {
      events: 3,
      batches: 2,
      firstAt: times[0],
      lastAt: times.at(-1),
    })
    assert.ok(Number.isSafeInteger(bytes) && bytes > 0)
    assert.ok(eventsPerSecond >= 0 && eventsPerSecond <= 3)
  }),

  check('builds are listed in pages, with the time of their freeze, and found by a part of their id', async (bench) => {
    const { ingest, submit, event, publish } = bench
    assert.deepEqual(await ingest.listBuilds(), { builds: [], next: null })
    for (const buildId of ['a', 'Beta', 'c']) await publish({ map: 1, buildId })
    for (const buildId of ['é&1', 'alpha', 'c']) {
      await submit(event(buildId, { buildId }))
      // two events may have the same time
      await publish({ map: 1, buildId: `${buildId}-next` })
    }
    const { builds, next } = await ingest.listBuilds()
    assert.equal(next, null)
    assert.deepEqual(
      builds.slice(0, 5).map(({ buildId, frozenAt, maps }) => [buildId, frozenAt, maps]),
      ['é&1-next', 'c-next', 'alpha-next', 'a', 'Beta'].map((buildId) => [buildId, null, 1]),
    )
    const frozen = builds.slice(5)
    assert.deepEqual(frozen.map(({ buildId }) => buildId).sort(), ['alpha', 'c', 'é&1'])
    for (const [i, { frozenAt }] of frozen.entries()) {
      assert.ok(frozenAt !== null && frozenAt <= (frozen[i - 1]?.frozenAt ?? frozenAt))
    }
    assert.equal(
      frozen.find(({ buildId }) => buildId === 'alpha')?.frozenAt,
      (await ingest.findEvent('alpha'))?.receivedAt,
    )
    for (const limit of [1, 3, 8]) {
      const seen: unknown[] = []
      for (let cursor: string | null | undefined; cursor !== null; ) {
        const page = await ingest.listBuilds({ ...(cursor && { cursor }), limit })
        assert.ok(page.builds.length <= limit)
        seen.push(...page.builds)
        cursor = page.next
      }
      assert.deepEqual(seen, builds)
    }
    const find = async (search: string) => (await ingest.listBuilds({ search })).builds.map(({ buildId }) => buildId)
    assert.deepEqual(await find('BETA'), ['Beta'])
    assert.deepEqual(await find('é&1-'), ['é&1-next'])
    assert.deepEqual(await find('%'), [])
    for (const search of ['', 'a'.repeat(129)]) await assertRefused(ingest.listBuilds({ search }), 'invalid-argument')
    await assertRefused(ingest.listBuilds({ cursor: 'no cursor' }), 'invalid-cursor')
    for (const limit of [0, 1_001]) await assertRefused(ingest.listBuilds({ limit }), 'invalid-argument')
  }),

  check('outcomes are counted by time, type and build', async ({ ingest, submit, event }) => {
    const empty = await ingest.getActivity()
    assert.equal(empty.stepSeconds, 60)
    assert.equal(empty.servers, 0)
    assert.ok(empty.steps.length >= 60 && empty.steps.every((step, i) => step.at === empty.from + i * 60_000))
    await submit(event('a', { type: 'kill', buildId: 'b1' }), event('b'), event('b'), event('c', { type: 5 }), 7)
    await submit(event('a'), event('d', { type: 'kill' }), event('e', { type: 'kill', placeId: {} }))
    for (const [hours, stepSeconds] of [
      [1, 60],
      [24, 600],
      [14 * 24, 3_600],
    ] as const) {
      // the clock of this process may be behind
      const to = Date.now() + 60_000
      const from = to - hours * 3_600_000
      const activity = await ingest.getActivity({ from, to, by: 'type' })
      assert.equal(activity.stepSeconds, stepSeconds)
      assert.ok(activity.from <= from && activity.to >= to && activity.servers >= 1)
      const sum = (name: 'accepted' | 'duplicates' | 'rejected') =>
        activity.steps.reduce((total, step) => total + step[name], 0)
      assert.deepEqual([sum('accepted'), sum('duplicates'), sum('rejected')], [3, 2, 3])
      const groups = activity.groups?.map(({ name, accepted, rejected, counts }) => {
        assert.equal(counts.length, activity.steps.length)
        const counted = counts.reduce((total, count) => total + count, 0)
        assert.equal(counted, accepted)
        return [name, accepted, rejected]
      })
      assert.deepEqual(groups, [
        ['kill', 2, 1],
        [null, 1, 2],
      ])
      const builds = await ingest.getActivity({ from, to, by: 'build' })
      assert.deepEqual(
        builds.groups?.map(({ name, accepted }) => [name, accepted]),
        [
          ['b1', 1],
          [null, 2],
        ],
      )
    }
  }),

  check('rejected events are counted by cause, with samples', async ({ ingest, submit, event }) => {
    const { total: none, groups: noGroups, other } = await ingest.listRejected()
    assert.deepEqual([none, noGroups, other], [0, [], 0])
    const { rejected } = await submit(
      event('a', { type: 5, serverId: 's' }),
      event('good'),
      7,
      event('b', { type: 6, buildId: 1, serverId: 's' }),
    )
    await submit(event('c', { type: 'kill', buildId: 7, serverId: [] }))
    const { total, groups, steps } = await ingest.listRejected()
    assert.equal(total, 4)
    const counted = steps.reduce((sum, step) => sum + step.rejected, 0)
    assert.equal(counted, 4)
    const causes = groups.map(({ code, path, type, buildId, count }) => [code, path, type, buildId, count])
    assert.deepEqual(causes.slice(0, 1), [['invalid_type', '/type', null, null, 2]])
    assert.deepEqual(
      new Set(causes.slice(1).map(String)),
      new Set(['not_object,,,,1', 'invalid_type,/buildId,kill,,1']),
    )
    const [first] = groups
    assert.ok(first && first.firstAt <= first.lastAt && Math.abs(first.lastAt - Date.now()) < 3_600_000)
    const sampled = first.samples.map(({ receivedAt: _, ...sample }) => sample)
    const [a, , b] = rejected
    assert.deepEqual(
      groups.map(({ serverIds }) => serverIds),
      [[{ serverId: 's', count: 2 }], ...[1, 1].map((count) => [{ serverId: null, count }])],
    )
    assert.deepEqual(sampled, [
      { eventId: 'a', issues: a?.issues },
      { eventId: 'b', issues: b?.issues },
    ])
  }),

  check('an invalid range of activity is refused', async ({ ingest }) => {
    const day = 86_400_000
    for (const range of [
      { from: Number.NaN },
      { from: 2 * day, to: day },
      { from: day, to: day },
      { from: 0, to: 32 * day },
    ]) {
      await assertRefused(ingest.getActivity(range), 'invalid-argument')
      await assertRefused(ingest.listRejected(range), 'invalid-argument')
    }
    await assertRefused(ingest.getActivity({ by: 'place' as 'type' }), 'invalid-argument')
  }),
]
