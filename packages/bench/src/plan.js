/**
 * How much is measured.
 *
 * @typedef {object} Plan
 * @property {string} name
 * @property {number} rounds
 * @property {number} warmupSeconds
 * @property {number} seconds of each run
 * @property {number} phaseSeconds of each of the mixed loads
 * @property {number} latencySeconds enough for a merge
 * @property {number} uploadSeconds
 * @property {number} sentEvents of the file that `ingest send` sends
 * @property {number[]} sizes how many events are stored before, each measured beside an empty store
 * @property {number} recoverySize
 * @property {readonly Part[]} parts
 * @property {readonly string[]} [only] contenders; all without
 */

/** @typedef {'throughput' | 'mixed' | 'growth' | 'latency' | 'recovery' | 'uploads' | 'send'} Part */

/** @type {readonly Part[]} */
export const parts = ['throughput', 'mixed', 'growth', 'latency', 'recovery', 'uploads', 'send']

/** @type {Record<'full' | 'quick' | 'smoke', Plan>} */
export const plans = {
  full: {
    name: 'full',
    rounds: 9,
    warmupSeconds: 1.5,
    seconds: 3,
    phaseSeconds: 1.5,
    latencySeconds: 10,
    uploadSeconds: 6,
    sentEvents: 300_000,
    sizes: [10e6, 50e6, 100e6],
    recoverySize: 10e6,
    parts,
  },
  quick: {
    name: 'quick',
    rounds: 3,
    warmupSeconds: 0.4,
    seconds: 1.2,
    phaseSeconds: 0.5,
    latencySeconds: 2,
    uploadSeconds: 2,
    sentEvents: 100_000,
    sizes: [1e6],
    recoverySize: 1e6,
    parts,
  },
  smoke: {
    name: 'smoke',
    rounds: 1,
    warmupSeconds: 0.1,
    seconds: 0.2,
    phaseSeconds: 0.1,
    latencySeconds: 0.2,
    uploadSeconds: 0.2,
    sentEvents: 1000,
    sizes: [2000],
    recoverySize: 2000,
    parts: ['throughput', 'mixed', 'growth', 'recovery', 'uploads', 'send'],
    only: ['floor', 'ours'],
  },
}

/** @type {Record<'full' | 'quick' | 'smoke', import('./measure-postgres.js').PostgresPlan>} */
export const postgresPlans = {
  full: { name: 'full', rounds: 9, warmupSeconds: 1.5, seconds: 4, sizes: [10e6, 50e6] },
  quick: { name: 'quick', rounds: 3, warmupSeconds: 0.5, seconds: 1.5, sizes: [1e6] },
  smoke: { name: 'smoke', rounds: 1, warmupSeconds: 0.1, seconds: 0.2, sizes: [2000], only: ['ours', 'ours-postgres'] },
}

/** What is sent unless something else is being measured. */
export const usualLoad = { count: 100, connections: 16 }

/**
 * Contenders in the order of a round: each is the first in turn, as the first finds the machine as the last has left it.
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
 * The contenders of a round, in turn. Peers are in every third: no target of these measurements refers to them.
 *
 * @param {readonly import('./contenders.js').Contender[]} contenders
 * @param {number} round from 0 on
 */
export function contendersOfRound(contenders, round) {
  const chosen = contenders.filter(({ isPeer }) => isPeer !== true || round % 3 === 0)
  return inTurn(chosen, round % 3 === 0 ? round / 3 : round)
}

/** Whether a plan is a full one of which nothing was left out that the README quotes. @param {Plan} plan */
export function isComplete({ name, parts: chosen, only }) {
  const hasContenders = ['floor', 'ours'].every((each) => only === undefined || only.includes(each))
  return name === 'full' && hasContenders && parts.every((part) => chosen.includes(part))
}
