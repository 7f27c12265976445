import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { answerCalls } from '../src/answer-calls.js'
import { makeBatch, newSeed, stampBatch } from '../src/make-batch.js'
import { processorTimePerEvent, readProcessorTime } from '../src/processor-time.js'
import { percentile } from '../src/statistics.js'

// Ingest without HTTP: the same batches, as bytes, from the same number of callers, in one process. Making their ids
// is part of what is measured.
/** @type {import('@ingest/core').EmbeddedIngest} */
let ingest

answerCalls({
  async start({ directory }) {
    ingest = createIngest({ store: await openLmdbStore(directory) })
  },
  send,
  stop: () => ingest?.close(),
})

/** @param {import('../src/send-load.js').LoadOptions} options */
async function send({ projectId, count, connections, seconds, warmupSeconds = 0, watched }) {
  const processorTime = () => watched && readProcessorTime(watched)
  const seed = newSeed()
  const start = performance.now() + warmupSeconds * 1000
  let end = start + seconds * 1000
  /** @type {number[]} */
  const latenciesMs = []
  let processorBefore = processorTime()
  setTimeout(() => {
    processorBefore = processorTime()
  }, warmupSeconds * 1000)
  let number = 0

  async function callInALoop() {
    const batch = makeBatch(projectId, count)
    for (;;) {
      const sentAt = performance.now()
      if (sentAt >= end && latenciesMs.length > 0) return
      stampBatch(batch, seed, number++)
      const { accepted } = await ingest.project(projectId).submitBatch(batch.body)
      if (accepted !== count) throw new Error(`a wrong answer: ${accepted} of ${count} new events accepted`)
      const now = performance.now()
      // on a machine that is busy with something else, a short run may see no answer in its time
      if (now >= end && latenciesMs.length === 0) end = now + 1
      if (now >= start && now < end) latenciesMs.push(now - sentAt)
    }
  }

  await Promise.all(Array.from({ length: connections }, callInALoop))
  const processorAfter = processorTime()
  const sorted = Float64Array.from(latenciesMs).sort()
  return {
    eventsPerSecond: (sorted.length * count * 1000) / (end - start),
    events: sorted.length * count,
    batches: sorted.length,
    p50Ms: percentile(sorted, 0.5),
    p90Ms: percentile(sorted, 0.9),
    p99Ms: percentile(sorted, 0.99),
    maxMs: percentile(sorted, 1),
    loadCpu: 0,
    processor: processorTimePerEvent(processorBefore, processorAfter, sorted.length * count),
    seed,
    answered: number,
  }
}
