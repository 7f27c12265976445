import { openContender, waitForRest } from '../contenders/open-contender.js'
import { contendersOfRound } from '../plan.js'
import { formatTable } from '../report/format.js'
import { rate, ratioCell, speedCells, speedHead } from '../report/rounds.js'

/**
 * @typedef {object} Mix
 * @property {string} name
 * @property {string} title
 * @property {import('../contenders/open-contender.js').Load} load
 * @property {boolean} [isAgain] whether it sends the batches of `new` again
 * @property {boolean} [isForFloor] whether it is another load for a server that stores nothing
 */

/** @type {readonly Mix[]} */
const mixes = [
  { name: 'new', title: 'all new', load: {}, isForFloor: true },
  { name: 'again', title: 'whole batches sent again', load: {}, isAgain: true },
  { name: 'repeats-1', title: '1 % repeats', load: { repeatShare: 0.01 } },
  { name: 'repeats-50', title: '50 % repeats', load: { repeatShare: 0.5 } },
  { name: 'single', title: '1 event a batch', load: { count: 1 }, isForFloor: true },
  { name: 'connections-1', title: '1 connection', load: { connections: 1 }, isForFloor: true },
  { name: 'connections-4', title: '4 connections', load: { connections: 4 }, isForFloor: true },
  { name: 'connections-64', title: '64 connections', load: { connections: 64 }, isForFloor: true },
]

const measured = ['floor', 'ours', 'ours-postgres', 'postgres']

/** Runs by contender and mix. @typedef {Record<string, Record<string, import('../load/send-load.js').LoadResult>>} MixedRound */

/**
 * Other loads, round by round. All contenders of a round are open at the same time, each on an empty store, and are loaded
 * in turn for each mix.
 *
 * @param {import('../contenders/open-contender.js').Context} context
 * @param {import('../plan.js').Plan} plan
 * @returns {Promise<MixedRound[]>}
 */
export async function measureMixed(context, plan) {
  const contenders = context.contenders.filter(({ name, isPeer }) => {
    return measured.includes(name) && (plan.name === 'full' || !isPeer)
  })
  const results = []
  for (let round = 0; round < plan.rounds; round++) {
    results.push(await measureRound(context, contendersOfRound(contenders, round), plan))
    context.log(`round ${round + 1}: mixed loads`)
  }
  return results
}

/**
 * @param {import('../contenders/open-contender.js').Context} context
 * @param {readonly import('../contenders/find-contenders.js').Contender[]} contenders
 * @param {import('../plan.js').Plan} plan
 */
async function measureRound(context, contenders, { warmupSeconds, phaseSeconds: seconds }) {
  /** @type {import('../contenders/open-contender.js').Opened[]} */
  const running = []
  /** @type {MixedRound} */
  const runs = Object.fromEntries(contenders.map(({ name }) => [name, {}]))
  try {
    for (const contender of contenders) {
      running.push(await openContender(context, contender, { store: 'mixed', isFresh: true }))
    }
    for (const { name: mix, load, isAgain, isForFloor } of mixes) {
      // the first mix also warms up the contender for the others
      const duration = { seconds, warmupSeconds: mix === 'new' ? warmupSeconds * 2 : warmupSeconds / 2 }
      for (const opened of running) {
        const { name } = opened.contender
        const own = /** @type {MixedRound[string]} */ (runs[name])
        if (name === 'floor' && !isForFloor) continue
        for (const other of running) if (other !== opened) await waitForRest(other)
        const again = isAgain && own.new ? { seed: own.new.seed, resend: own.new.answered } : {}
        own[mix] = await opened.send({ ...load, ...duration, ...again })
      }
    }
  } finally {
    for (const opened of running) await opened.close()
  }
  return runs
}

/** The mix of the floor to compare with: it stores nothing, so repeats are new events to it. @param {string} mix */
export function floorOf(mix) {
  return (/** @type {MixedRound} */ round) => round.floor?.[mix] ?? round.floor?.new
}

/** @param {readonly MixedRound[]} rounds @param {readonly import('../contenders/find-contenders.js').Contender[]} contenders */
export function mixedSection(rounds, contenders) {
  const rows = mixes.flatMap(({ name: mix, title: load }) => {
    const loaded = contenders.filter(({ name }) => rounds.some((round) => round[name]?.[mix]))
    return loaded.map(({ name, title }) => {
      const pick = (/** @type {MixedRound} */ round) => round[name]?.[mix]
      const ofNew = ratioCell(rounds, pick, (round) => round[name]?.new, rate)
      return [load, title, ...speedCells(rounds, pick, floorOf(mix)), ofNew]
    })
  })
  return [
    'One after another on one store, the contenders in turns. Repeats count as events, as each has to be looked up; every response said exactly which were new. The floor keeps nothing, so repeats are compared with its new events. Peers are measured in every third round.',
    formatTable(['load', '', ...speedHead(), 'events/s of all new'], rows),
  ].join('\n\n')
}
