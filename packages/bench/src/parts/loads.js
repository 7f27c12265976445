import { openContender, waitForRest } from '../contenders/open-contender.js'
import { contendersOfRound } from '../plan.js'
import { formatTable } from '../report/format.js'
import { rate, ratioCell, speedCells, speedHead } from '../report/rounds.js'

/**
 * @typedef {object} NamedLoad
 * @property {string} name
 * @property {string} title
 * @property {import('../contenders/open-contender.js').Load} load
 * @property {boolean} [isAgain] whether it sends the batches of the first load again
 * @property {boolean} [isForFloor] whether the floor, which stores nothing, is measured with it too; otherwise the first
 *   load of the floor is compared with it
 */

/** Runs by contender and load. @typedef {Record<string, Record<string, import('../load/send-load.js').LoadResult>>} LoadsRound */

/** The usual load, then those of game servers, by the size of a batch. @type {readonly [count: number, connections: number][]} */
const sizes = [
  [100, 16],
  [1, 1],
  [1, 16],
  [1, 64],
  [5, 16],
  [5, 64],
  [20, 16],
  [20, 64],
  [100, 1],
  [100, 4],
  [100, 64],
]

/** @type {readonly NamedLoad[]} */
const batchLoads = sizes.map(([count, connections]) => {
  const title = `${count}, ${connections}`
  return { name: `${count}x${connections}`, title, load: { count, connections }, isForFloor: true }
})

/** @type {readonly NamedLoad[]} */
const repeatLoads = [
  { name: 'new', title: 'all new', load: {}, isForFloor: true },
  { name: 'again', title: 'whole batches sent again', load: {}, isAgain: true },
  { name: 'repeats-1', title: '1 % repeats', load: { repeatShare: 0.01 } },
  { name: 'repeats-50', title: '50 % repeats', load: { repeatShare: 0.5 } },
]

const measured = ['floor', 'ours', 'ours-postgres', 'postgres', 'sqlite', 'nats']

/** @param {import('../contenders/open-contender.js').Context} context @param {import('../plan.js').Plan} plan */
export function measureBatches(context, plan) {
  return measureLoads(context, plan, batchLoads)
}

/** @param {import('../contenders/open-contender.js').Context} context @param {import('../plan.js').Plan} plan */
export function measureRepeats(context, plan) {
  return measureLoads(context, plan, repeatLoads)
}

/**
 * Several loads, round by round. All contenders of a round are open at the same time, each on an empty store, and are loaded
 * in turn for each load.
 *
 * @param {import('../contenders/open-contender.js').Context} context
 * @param {import('../plan.js').Plan} plan
 * @param {readonly NamedLoad[]} loads
 * @returns {Promise<LoadsRound[]>}
 */
async function measureLoads(context, plan, loads) {
  const contenders = context.contenders.filter(({ name, isPeer }) => {
    return measured.includes(name) && (plan.name === 'full' || !isPeer)
  })
  const results = []
  for (let round = 0; round < plan.rounds; round++) {
    results.push(await measureRound(context, contendersOfRound(contenders, round), { plan, loads }))
    context.log(`round ${round + 1}`)
  }
  return results
}

/**
 * @param {import('../contenders/open-contender.js').Context} context
 * @param {readonly import('../contenders/find-contenders.js').Contender[]} contenders
 * @param {{ plan: import('../plan.js').Plan, loads: readonly NamedLoad[] }} options
 */
async function measureRound(context, contenders, { plan: { warmupSeconds, phaseSeconds: seconds }, loads }) {
  /** @type {import('../contenders/open-contender.js').Opened[]} */
  const running = []
  /** @type {LoadsRound} */
  const runs = Object.fromEntries(contenders.map(({ name }) => [name, {}]))
  const first = loads[0]?.name ?? ''
  try {
    for (const contender of contenders) {
      running.push(await openContender(context, contender, { store: 'loads', isFresh: true }))
    }
    for (const { name: load, load: options, isAgain, isForFloor } of loads) {
      // the first load also warms up the contender for the others
      const duration = { seconds, warmupSeconds: load === first ? warmupSeconds * 2 : warmupSeconds / 2 }
      for (const opened of running) {
        const { name } = opened.contender
        const own = /** @type {LoadsRound[string]} */ (runs[name])
        if (name === 'floor' && !isForFloor) continue
        for (const other of running) if (other !== opened) await waitForRest(other)
        const again = isAgain && own[first] ? { seed: own[first].seed, resend: own[first].answered } : {}
        own[load] = await opened.send({ ...options, ...duration, ...again })
      }
    }
  } finally {
    for (const opened of running) await opened.close()
  }
  return runs
}

/** Picks the run of the floor to compare with: to the floor, which stores nothing, repeats are new events. @param {string} load */
export function floorOf(load) {
  return (/** @type {LoadsRound} */ round) => round.floor?.[load] ?? round.floor?.new
}

/** @param {readonly LoadsRound[]} rounds @param {readonly import('../contenders/find-contenders.js').Contender[]} contenders */
export function batchesSection(rounds, contenders) {
  return [
    'Batches of new events by their size and the number of connections, one after another on one store, the contenders in turns. A game server that sends each second or two sends 5 to 20 events at a time. Peers are measured in every third round.',
    formatLoads({ rounds, contenders, loads: batchLoads, head: 'events a batch, connections' }),
  ].join('\n\n')
}

/** @param {readonly LoadsRound[]} rounds @param {readonly import('../contenders/find-contenders.js').Contender[]} contenders */
export function repeatsSection(rounds, contenders) {
  return [
    'One after another on one store, the contenders in turns. Repeats count as events, as each has to be looked up; every response said exactly which were new. The floor keeps nothing, so repeats are compared with its new events. Peers are measured in every third round.',
    formatLoads({ rounds, contenders, loads: repeatLoads, head: 'load' }),
  ].join('\n\n')
}

/**
 * @param {object} options
 * @param {readonly LoadsRound[]} options.rounds
 * @param {readonly import('../contenders/find-contenders.js').Contender[]} options.contenders
 * @param {readonly NamedLoad[]} options.loads
 * @param {string} options.head
 */
function formatLoads({ rounds, contenders, loads, head }) {
  const first = loads[0]
  const rows = loads.flatMap(({ name: load, title: loadTitle }) => {
    const loaded = contenders.filter(({ name }) => rounds.some((round) => round[name]?.[load]))
    return loaded.map(({ name, title }) => {
      const pick = (/** @type {LoadsRound} */ round) => round[name]?.[load]
      const ofFirst = ratioCell(rounds, pick, (round) => round[name]?.[first?.name ?? ''], rate)
      return [loadTitle, title, ...speedCells(rounds, pick, floorOf(load)), ofFirst]
    })
  })
  return formatTable([head, '', ...speedHead(), `events/s of ${first?.title}`], rows)
}
