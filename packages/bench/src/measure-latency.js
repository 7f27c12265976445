import { join } from 'node:path'
import { diskBytes } from './disk-bytes.js'
import { openContender } from './open-contender.js'
import { usualLoad } from './plan.js'

/**
 * @typedef {object} Latency
 * @property {number} eventsPerSecondMax what the closed loop reached on this store
 * @property {import('./send-load.js').LoadResult[]} rounds
 * @property {number} indexed ids that were added in all while it was measured
 * @property {number} idsBytesBefore of the `ids` directory on disk
 * @property {number} idsBytesAfter
 */

/** Enough that a batch which is due hardly ever waits for a connection. */
const connections = 64

/**
 * How long answers take when batches come evenly, at half of the rate that the same store takes from a closed loop:
 * through all the flushes and merges which that many ids bring with them.
 *
 * @param {import('./open-contender.js').Context} context
 * @param {import('./plan.js').Plan} plan
 * @param {string} store
 * @returns {Promise<Latency>}
 */
export async function measureLatency(context, { rounds, seconds, warmupSeconds, latencySeconds }, store) {
  const [ours] = context.contenders.filter(({ name }) => name === 'ours')
  if (!ours) throw new Error('latency is measured of ours')
  const opened = await openContender(context, ours, { store, isKept: true })
  try {
    const ids = join(opened.directory, 'ids')
    const { eventsPerSecond } = await opened.send({ ...usualLoad, seconds, warmupSeconds })
    const batchesPerSecond = eventsPerSecond / usualLoad.count / 2
    const idsBytesBefore = diskBytes(ids)
    const results = []
    for (let round = 0; round < rounds; round++) {
      const load = { ...usualLoad, connections, seconds: latencySeconds, warmupSeconds, batchesPerSecond }
      const result = await opened.send(load)
      results.push(result)
      context.log(`round ${round + 1}: p50 ${result.p50Ms.toFixed(1)} ms, p99 ${result.p99Ms.toFixed(1)} ms`)
    }
    const indexed = results.reduce((sum, { events }) => sum + events, 0)
    return {
      eventsPerSecondMax: eventsPerSecond,
      rounds: results,
      indexed,
      idsBytesBefore,
      idsBytesAfter: diskBytes(ids),
    }
  } finally {
    await opened.close()
  }
}
