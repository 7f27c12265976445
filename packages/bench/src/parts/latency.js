import { join } from 'node:path'
import { diskBytes } from '../contenders/disk-bytes.js'
import { loadAtHalfRate, openOurs } from '../contenders/open-contender.js'
import { formatNumber, formatTable } from '../report/format.js'
import { figureCell, formatThreads, processorTime } from '../report/rounds.js'

/**
 * @typedef {object} Latency
 * @property {number} eventsPerSecondMax of the closed loop on this store
 * @property {import('../load/send-load.js').LoadResult[]} rounds
 * @property {number} indexed ids that were added during the rounds
 * @property {number} idsBytesBefore of the `ids` directory on disk
 * @property {number} idsBytesAfter
 */

/**
 * The latency of batches at an even rate, during flushes and merges of the id index.
 *
 * @param {import('../contenders/open-contender.js').Context} context
 * @param {import('../plan.js').Plan} plan
 * @returns {Promise<Latency>}
 */
export async function measureLatency(context, plan) {
  const opened = await openOurs(context, 'latency')
  try {
    const ids = join(opened.directory, 'ids')
    const { eventsPerSecond, load } = await loadAtHalfRate(opened, plan, plan.latencySeconds)
    const idsBytesBefore = diskBytes(ids)
    const rounds = []
    for (let round = 0; round < plan.rounds; round++) {
      const result = await opened.send(load)
      rounds.push(result)
      context.log(`round ${round + 1}: p50 ${result.p50Ms.toFixed(1)} ms, p99 ${result.p99Ms.toFixed(1)} ms`)
    }
    const indexed = rounds.reduce((sum, { events }) => sum + events, 0)
    return { eventsPerSecondMax: eventsPerSecond, rounds, indexed, idsBytesBefore, idsBytesAfter: diskBytes(ids) }
  } finally {
    await opened.close()
  }
}

/** @param {Latency} latency */
export function latencySection({ eventsPerSecondMax, rounds, indexed, idsBytesBefore, idsBytesAfter }) {
  return [
    `Batches were sent at even intervals, without waiting for earlier responses, at half of the ${formatNumber(eventsPerSecondMax)} events a second that the same store took just before. Latency counts from the time at which a batch was due. Meanwhile, ${formatNumber(indexed)} ids were added: every 262,144 cause a flush, and every eight flushes a merge. On disk, \`ids\` went from ${formatNumber(idsBytesBefore / 1e6)} to ${formatNumber(idsBytesAfter / 1e6)} MB.`,
    formatTable(
      ['p50 ms', 'p90 ms', 'p99 ms', 'p99 over p50', 'longest, ms', 'processor time, µs an event', 'by thread'],
      [
        [
          figureCell(rounds, ({ p50Ms }) => p50Ms),
          figureCell(rounds, ({ p90Ms }) => p90Ms),
          figureCell(rounds, ({ p99Ms }) => p99Ms),
          figureCell(rounds, ({ p50Ms, p99Ms }) => p99Ms / p50Ms),
          figureCell(rounds, ({ maxMs }) => maxMs),
          figureCell(rounds, processorTime),
          formatThreads(rounds.map(({ processor }) => processor)),
        ],
      ],
    ),
  ].join('\n\n')
}
