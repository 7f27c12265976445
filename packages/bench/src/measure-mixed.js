import { openContender } from './open-contender.js'
import { usualLoad } from './plan.js'

/**
 * @typedef {object} Mix
 * @property {string} name
 * @property {string} title
 * @property {number} count
 * @property {number} connections
 * @property {number} [repeatShare]
 * @property {boolean} [isAgain] the batches of `new`, once more
 */

/** @type {readonly Mix[]} */
export const mixes = [
  { ...usualLoad, name: 'new', title: 'all new' },
  { ...usualLoad, name: 'again', title: 'whole batches sent again', isAgain: true },
  { ...usualLoad, name: 'repeats-1', title: '1 % repeats', repeatShare: 0.01 },
  { ...usualLoad, name: 'repeats-50', title: '50 % repeats', repeatShare: 0.5 },
  { ...usualLoad, name: 'single', title: '1 event a batch', count: 1 },
  { ...usualLoad, name: 'connections-1', title: '1 connection', connections: 1 },
  { ...usualLoad, name: 'connections-4', title: '4 connections', connections: 4 },
  { ...usualLoad, name: 'connections-64', title: '64 connections', connections: 64 },
]

/** What does not keep events cannot know which are repeats. */
const forgetful = ['floor', 'sync-floor']
const measured = ['floor', 'ours', 'postgres']

/**
 * Other loads, one after another on one store that was empty before the first, round by round.
 *
 * @param {import('./open-contender.js').Context} context
 * @param {import('./plan.js').Plan} plan
 * @returns {Promise<Record<string, Record<string, import('./send-load.js').LoadResult>>[]>} by contender and mix, for
 *   each round
 */
export async function measureMixed(context, { rounds, warmupSeconds, phaseSeconds, name: planName }) {
  const contenders = context.contenders.filter(({ name }) => measured.includes(name))
  // a shorter look is at ours only
  const chosen = planName !== 'full' ? contenders.filter(({ name }) => name === 'ours') : contenders
  const results = []
  for (let round = 0; round < rounds; round++) {
    /** @type {Record<string, Record<string, import('./send-load.js').LoadResult>>} */
    const byContender = {}
    for (const contender of chosen) {
      byContender[contender.name] = await measureMixes(context, contender, { seconds: phaseSeconds, warmupSeconds })
      context.log(`round ${round + 1}: ${contender.title}: mixed loads`)
    }
    results.push(byContender)
  }
  return results
}

/**
 * @param {import('./open-contender.js').Context} context
 * @param {import('./contenders.js').Contender} contender
 * @param {{ seconds: number, warmupSeconds: number }} duration
 */
async function measureMixes(context, contender, { seconds, warmupSeconds }) {
  const opened = await openContender(context, contender, { store: 'mixed', isFresh: true })
  /** @type {Record<string, import('./send-load.js').LoadResult>} */
  const runs = {}
  for (const { name, title, isAgain, repeatShare = 0, ...load } of mixes) {
    if ((isAgain || repeatShare > 0) && forgetful.includes(contender.name)) continue
    const first = runs.new
    // the first phase warms up what the others find warm
    const duration = { seconds, warmupSeconds: name === 'new' ? warmupSeconds * 2 : warmupSeconds / 2 }
    const again = isAgain && first ? { seed: first.seed, resend: first.answered } : {}
    runs[name] = await opened.send({ ...load, ...duration, repeatShare, ...again })
  }
  await opened.close()
  return runs
}
