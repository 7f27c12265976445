import { openContender } from './open-contender.js'
import { inTurn, usualLoad } from './plan.js'

/** @typedef {import('./send-load.js').LoadResult} LoadResult */

/**
 * The usual load on each contender with an empty store, round by round.
 *
 * @param {import('./open-contender.js').Context} context
 * @param {import('./plan.js').Plan} plan
 * @returns {Promise<Record<string, LoadResult>[]>} what each contender did, in each round
 */
export async function measureThroughput(context, { rounds, warmupSeconds, seconds }) {
  /** @type {Record<string, LoadResult>[]} */
  const results = []
  for (let round = 0; round < rounds; round++) {
    /** @type {Record<string, LoadResult>} */
    const runs = {}
    for (const contender of inTurn(context.contenders, round)) {
      const opened = await openContender(context, contender, { store: 'empty', isFresh: true })
      const run = await opened.send({ ...usualLoad, seconds, warmupSeconds })
      runs[contender.name] = run
      await opened.close()
      const rate = Math.round(run.eventsPerSecond).toLocaleString('en')
      context.log(`round ${round + 1}: ${contender.title}: ${rate} events/s`)
    }
    results.push(runs)
  }
  return results
}
