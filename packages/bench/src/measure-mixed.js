import { setTimeout as sleep } from 'node:timers/promises'
import { openContender } from './open-contender.js'
import { contendersOfRound, usualLoad } from './plan.js'
import { readProcessorTime, totalOf } from './processor-time.js'

/**
 * @typedef {object} Mix
 * @property {string} name
 * @property {string} title
 * @property {number} count
 * @property {number} connections
 * @property {number} [repeatShare]
 * @property {boolean} [isAgain] the batches of `new`, once more
 * @property {boolean} [isForFloor] whether it differs for a server that keeps nothing
 */

/** @type {readonly Mix[]} */
export const mixes = [
  { ...usualLoad, name: 'new', title: 'all new', isForFloor: true },
  { ...usualLoad, name: 'again', title: 'whole batches sent again', isAgain: true },
  { ...usualLoad, name: 'repeats-1', title: '1 % repeats', repeatShare: 0.01 },
  { ...usualLoad, name: 'repeats-50', title: '50 % repeats', repeatShare: 0.5 },
  { ...usualLoad, name: 'single', title: '1 event a batch', count: 1, isForFloor: true },
  { ...usualLoad, name: 'connections-1', title: '1 connection', connections: 1, isForFloor: true },
  { ...usualLoad, name: 'connections-4', title: '4 connections', connections: 4, isForFloor: true },
  { ...usualLoad, name: 'connections-64', title: '64 connections', connections: 64, isForFloor: true },
]

const measured = ['floor', 'ours', 'ours-postgres', 'postgres']
const [restPollMs, restMsMax] = [100, 5000]

/**
 * By contender and mix.
 *
 * @typedef {Record<string, Record<string, import('./send-load.js').LoadResult>>} MixedRound
 */

/**
 * Other loads, round by round. All contenders of a round run at the same time, each on a store that was empty before,
 * and take turns mix by mix.
 *
 * @param {import('./open-contender.js').Context} context
 * @param {import('./plan.js').Plan} plan
 * @returns {Promise<MixedRound[]>}
 */
export async function measureMixed(context, { rounds, warmupSeconds, phaseSeconds: seconds, name: planName }) {
  const contenders = context.contenders.filter(({ name, isPeer }) => {
    return measured.includes(name) && (planName === 'full' || !isPeer)
  })
  const results = []
  for (let round = 0; round < rounds; round++) {
    const chosen = contendersOfRound(contenders, round)
    results.push(await measureRound(context, chosen, { seconds, warmupSeconds }))
    context.log(`round ${round + 1}: mixed loads`)
  }
  return results
}

/**
 * @param {import('./open-contender.js').Context} context
 * @param {readonly import('./contenders.js').Contender[]} contenders
 * @param {{ seconds: number, warmupSeconds: number }} duration
 */
async function measureRound(context, contenders, { seconds, warmupSeconds }) {
  /** @type {{ name: string, opened: import('./open-contender.js').Opened }[]} */
  const running = []
  /** @type {MixedRound} */
  const runs = {}
  try {
    for (const contender of contenders) {
      const opened = await openContender(context, contender, { store: 'mixed', isFresh: true })
      running.push({ name: contender.name, opened })
      runs[contender.name] = {}
    }
    for (const { name: mix, title, isAgain, isForFloor, ...load } of mixes) {
      // the first phase warms up what the others find warm
      const duration = { seconds, warmupSeconds: mix === 'new' ? warmupSeconds * 2 : warmupSeconds / 2 }
      for (const { name, opened } of running) {
        const own = /** @type {MixedRound[string]} */ (runs[name])
        if (name === 'floor' && !isForFloor) continue
        for (const other of running) if (other.opened !== opened) await waitForRest(other.opened)
        const again = isAgain && own.new ? { seed: own.new.seed, resend: own.new.answered } : {}
        own[mix] = await opened.send({ ...load, ...duration, ...again })
      }
    }
  } finally {
    for (const { opened } of running) await opened.close()
  }
  return runs
}

/**
 * Waits until a contender has finished what it does in the background.
 *
 * @param {import('./open-contender.js').Opened} opened
 */
export async function waitForRest({ watched }) {
  const used = () => totalOf(readProcessorTime(watched)) ?? 0
  for (const latest = performance.now() + restMsMax; performance.now() < latest; ) {
    const before = used()
    await sleep(restPollMs)
    // one tick of the clock
    if (used() - before <= 10) return
  }
}
