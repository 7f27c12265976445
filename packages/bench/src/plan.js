/**
 * What a run measures, and for how long.
 *
 * @typedef {object} Plan
 * @property {'full' | 'quick' | 'smoke'} name
 * @property {number} rounds of throughput and batches
 * @property {number} fewerRounds of the other parts
 * @property {number} warmupSeconds
 * @property {number} seconds of each run
 * @property {number} phaseSeconds of each load of batches, repeats and databases
 * @property {number} latencySeconds enough for a merge of the id index
 * @property {number} uploadSeconds
 * @property {number} sentEvents of the file that `ingest send` sends
 * @property {readonly number[]} sizes events stored before, each measured beside an empty store
 * @property {readonly Part[]} parts
 * @property {readonly string[]} [only] contenders. Default: all
 */

/**
 * @typedef {'throughput' | 'batches' | 'repeats' | 'growth' | 'latency' | 'uploads' | 'send' | 'databases' | 'standby'} Part
 */

/** @type {readonly Part[]} */
export const parts = [
  'throughput',
  'batches',
  'repeats',
  'growth',
  'latency',
  'uploads',
  'send',
  'databases',
  'standby',
]

/** @type {Record<Plan['name'], Plan>} */
export const plans = {
  full: {
    name: 'full',
    rounds: 9,
    fewerRounds: 5,
    warmupSeconds: 1.5,
    seconds: 3,
    phaseSeconds: 1.5,
    latencySeconds: 10,
    uploadSeconds: 4,
    sentEvents: 300_000,
    sizes: [10e6, 100e6],
    parts,
  },
  quick: {
    name: 'quick',
    rounds: 3,
    fewerRounds: 3,
    warmupSeconds: 0.4,
    seconds: 1.2,
    phaseSeconds: 0.5,
    latencySeconds: 2,
    uploadSeconds: 2,
    sentEvents: 100_000,
    sizes: [1e6],
    parts: parts.filter((part) => part !== 'databases' && part !== 'standby'),
  },
  smoke: {
    name: 'smoke',
    rounds: 1,
    fewerRounds: 1,
    warmupSeconds: 0.1,
    seconds: 0.2,
    phaseSeconds: 0.1,
    latencySeconds: 0.2,
    uploadSeconds: 0.2,
    sentEvents: 1000,
    sizes: [2000],
    parts,
    only: ['floor', 'ours'],
  },
}

/** The load of every part that does not change it. */
export const usualLoad = { count: 100, connections: 16 }

/**
 * The contenders of a round. The order rotates, because each contender changes the state of the machine for the next.
 *
 * @template Contender
 * @param {readonly Contender[]} contenders
 * @param {number} round from 0 on
 * @returns {Contender[]}
 */
export function inTurn(contenders, round) {
  const first = contenders.length === 0 ? 0 : round % contenders.length
  return [...contenders.slice(first), ...contenders.slice(0, first)]
}

/**
 * Like {@link inTurn}, with peers and contenders that store in PostgreSQL in every third round only.
 *
 * @param {readonly import('./contenders/find-contenders.js').Contender[]} contenders
 * @param {number} round from 0 on
 */
export function contendersOfRound(contenders, round) {
  const chosen = contenders.filter(({ isPeer, hasDatabase }) => round % 3 === 0 || (!isPeer && !hasDatabase))
  return inTurn(chosen, round % 3 === 0 ? round / 3 : round)
}

/** The contenders whose figures the documents quote. */
export const quoted = ['floor', 'ours', 'ours-postgres', 'postgres']

/** Whether a run has all figures that the documents quote, so that it replaces the report. @param {Plan} plan */
export function isComplete({ name, parts: chosen, only }) {
  const has = (/** @type {string} */ contender) => only === undefined || only.includes(contender)
  return name === 'full' && quoted.every(has) && parts.every((part) => chosen.includes(part))
}

const factors = { '': 1, k: 1e3, M: 1e6 }

/** Parses `0`, `500`, `250k` or `1.5M`. @param {string} text */
export function parseCount(text) {
  const [, digits, unit] = /^(\d+(?:\.\d+)?)([kM]?)$/.exec(text) ?? []
  if (digits === undefined) throw new Error(`"${text}" is not a count such as 0, 500, 250k or 10M`)
  return Math.round(Number(digits) * factors[/** @type {keyof typeof factors} */ (unit)])
}
