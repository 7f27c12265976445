import { openContender } from './open-contender.js'
import { usualLoad } from './plan.js'
import { cpuSeconds } from './process-memory.js'

/**
 * One run.
 *
 * @typedef {import('./send-load.js').LoadResult & { serverCpu: number | undefined }} Run `serverCpu` is how many cores
 *   the process under test used, from its warm-up on; what PostgreSQL itself used is not in it
 */

/**
 * The usual load on each contender with an empty store, round by round.
 *
 * @param {import('./open-contender.js').Context} context
 * @param {import('./plan.js').Plan} plan
 * @returns {Promise<Record<string, Run>[]>} what each contender did, in each round
 */
export async function measureThroughput(context, { rounds, warmupSeconds, seconds }) {
  /** @type {Record<string, Run>[]} */
  const results = []
  for (let round = 0; round < rounds; round++) {
    /** @type {Record<string, Run>} */
    const runs = {}
    for (const contender of context.contenders) {
      const opened = await openContender(context, contender, { store: 'empty', isFresh: true })
      const cpu = cpuSeconds(opened.program.pid)
      const run = await opened.send({ ...usualLoad, seconds, warmupSeconds })
      const cpuAfter = cpuSeconds(opened.program.pid)
      const serverCpu = cpu === undefined || cpuAfter === undefined ? undefined : cpuAfter - cpu
      runs[contender.name] = { ...run, serverCpu: serverCpu && serverCpu / (seconds + warmupSeconds) }
      await opened.close()
      context.log(
        `round ${round + 1}: ${contender.title}: ${Math.round(run.eventsPerSecond).toLocaleString('en')} events/s`,
      )
    }
    results.push(runs)
  }
  return results
}
