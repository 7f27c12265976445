import t from 'tap'
import { batchOf, event } from '../../../checks/src/store/sample-events.ts'
import { createIngest } from '../../src/ingest.ts'
import { openMemoryStore } from '../../src/memory/memory-store.ts'
import { type EventBatch, type EventReader, type ReadBatchesOptions, readBatches } from '../../src/read/read-batches.ts'
import type { ReadPagesOptions } from '../../src/read/read-events.ts'

/** A project whose reads and pauses are recorded, and a clock that advances with both. */
function setUp(msPerEvent: number, pageEvents = 1) {
  const store = openMemoryStore()
  const project = createIngest({ store, now: () => 0 }).project('p')
  let now = 0
  const pauses = { ms: [] as number[], onPause: async (_count: number) => {} }
  const reads: ReadPagesOptions[] = []
  const reader: EventReader = {
    lastCursor: () => project.lastCursor(),
    // small pages, so that the clock advances between them
    async *readPages(options = {}) {
      reads.push(options)
      for await (const { events, scanned } of project.readPages(options)) {
        for (let at = 0; at < scanned.length; at += pageEvents) {
          const part = scanned.slice(at, at + pageEvents)
          now += msPerEvent * part.length
          yield { events: events.filter((event) => part.includes(event)), scanned: part }
        }
      }
    },
  }
  return {
    reads,
    pauses,
    async append(count: number, type: string) {
      const ids = Array.from({ length: count }, (_, i) => `${type}-${i}`)
      await store.append('p', batchOf(ids.map((id) => event(id, { type }))))
    },
    lastCursor: reader.lastCursor,
    read: (options: ReadBatchesOptions) =>
      readBatches(reader, options, {
        now: () => now,
        async sleep(ms) {
          now += ms
          await pauses.onPause(pauses.ms.push(ms))
        },
      }),
  }
}

async function shapesOf(batches: AsyncIterable<EventBatch>) {
  const shapes: [events: number, caughtUp: boolean][] = []
  for await (const { events, caughtUp } of batches) shapes.push([events.length, caughtUp])
  return shapes
}

t.test('a batch that scans for 30 seconds is yielded for its cursor', async (t) => {
  const { append, read, reads, lastCursor } = setUp(1_000)
  await append(65, 'other')
  await append(2, 'kill')
  t.strictSame(await shapesOf(read({ type: 'kill' })), [
    [0, false],
    [0, false],
    [2, true],
  ])
  t.equal(new Set(reads.map(({ after }) => after)).size, 3, 'each batch continues after the one before')
  t.strictSame(await shapesOf(read({ type: 'kill', after: await lastCursor() })), [[0, true]])
})

t.test(
  'a batch ends in the middle of a page when it is full, and after a page when it has scanned for long',
  async (t) => {
    const { append, read } = setUp(1_000, 16)
    for (let i = 0; i < 3; i++) {
      await append(25, `other-${i}`)
      await append(5, `${i}-kill`)
    }
    let largest = 0
    const idsOf = async (options: ReadBatchesOptions) => {
      const batches: string[][] = []
      for await (const { events } of read(options)) {
        largest = Math.max(
          largest,
          events.reduce((sum, { bytes }) => sum + bytes.length, 0),
        )
        batches.push(events.map(({ bytes }) => JSON.parse(Buffer.from(bytes).toString()).eventId))
      }
      return batches
    }
    const whole = await idsOf({})
    t.strictSame(
      whole.map(({ length }) => length),
      [32, 32, 26],
      'two pages of 16 seconds',
    )
    const ids = whole.flat()
    // with these, batches end at each place of a page
    for (let bytesMax = 200; bytesMax < 3_000; bytesMax += 100) {
      largest = 0
      t.strictSame((await idsOf({ bytesMax })).flat(), ids, 'each once')
      t.ok(largest > bytesMax / 3 && largest <= bytesMax, `${largest} of ${bytesMax} bytes`)
    }
    t.strictSame((await idsOf({ eventsMax: 7 })).flat(), ids, 'each once')
  },
)

t.test('a batch waits to be filled for maxWaitMs, and no longer than that', async (t) => {
  const { append, read, pauses } = setUp(0)
  await append(2, 'a')
  pauses.onPause = async (count) => {
    if (count < 3) await append(1, `b-${count}`)
  }
  t.strictSame(await shapesOf(read({ eventsMax: 4, maxWaitMs: 1_500 })), [
    [4, false],
    [0, true],
  ])
  t.strictSame(pauses.ms.splice(0), [1_000, 500])
  t.strictSame(await shapesOf(read({ eventsMax: 5, maxWaitMs: 2_001 })), [[4, true]])
  t.strictSame(pauses.ms, [1_000, 1_000, 1])
})

t.test('a batch without events does not wait to be filled', async (t) => {
  const { read, pauses } = setUp(0)
  t.strictSame(await shapesOf(read({ maxWaitMs: 3_600_000 })), [[0, true]])
  t.strictSame(pauses.ms, [])
})
