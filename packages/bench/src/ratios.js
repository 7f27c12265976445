import { totalOf } from './processor-time.js'
import { summarizeRatios } from './statistics.js'

/** @typedef {import('./run-benchmark.js').Results} Results */
/** @typedef {import('./statistics.js').Summary} Summary */
/** @typedef {import('./send-load.js').LoadResult} LoadResult */
/** @typedef {(run: LoadResult) => number | undefined} Figure what is taken of a run; undefined when it was not measured */

/** @type {Figure} */
export const rate = ({ eventsPerSecond }) => eventsPerSecond
/** An event, over all threads. @type {Figure} */
export const processorTime = ({ processor }) => totalOf(processor)

/**
 * What a contender reaches of another with an empty store.
 *
 * @param {Results} results @param {string} name @param {string} other @param {Figure} [figure]
 */
export function throughputRatio({ throughput = [] }, name, other, figure = rate) {
  return ratio(throughput, figure, (runs) => [runs[name], runs[other]])
}

/**
 * What a contender reaches with so many events stored of what it reaches with none.
 *
 * @param {Results} results @param {string} name @param {number} size @param {Figure} [figure]
 */
export function growthRatio({ growth }, name, size, figure = rate) {
  return ratio(growth?.rounds ?? [], figure, (round) => [round[name]?.[size], round[name]?.[0]])
}

/**
 * What a contender reaches with so many events stored of what the floor reaches.
 *
 * @param {Results} results @param {string} name @param {number} size @param {Figure} [figure]
 */
export function growthFloorRatio({ growth }, name, size, figure = rate) {
  return ratio(growth?.rounds ?? [], figure, (round) => [round[name]?.[size], round.floor?.[0]])
}

/**
 * What a contender reaches with a mixed load of what it reaches with new batches.
 *
 * @param {Results} results @param {string} mix @param {string} [name] @param {Figure} [figure]
 */
export function mixRatio({ mixed = [] }, mix, name = 'ours', figure = rate) {
  return ratio(mixed, figure, (round) => [round[name]?.[mix], round[name]?.new])
}

/**
 * What a contender reaches with a mixed load of what the floor reaches with the same load. Repeats are new events to the
 * floor, as it keeps nothing.
 *
 * @param {Results} results @param {string} mix @param {string} [name] @param {Figure} [figure]
 */
export function mixFloorRatio({ mixed = [] }, mix, name = 'ours', figure = rate) {
  return ratio(mixed, figure, (round) => [round[name]?.[mix], round.floor?.[mix] ?? round.floor?.new])
}

/**
 * One run against another, of those rounds that have both.
 *
 * @template Round
 * @param {readonly Round[]} rounds
 * @param {Figure} figure
 * @param {(round: Round) => [run: LoadResult | undefined, other: LoadResult | undefined]} pick
 * @returns {Summary | undefined}
 */
function ratio(rounds, figure, pick) {
  const both = rounds.flatMap((round) => {
    const [value, other] = pick(round).map((run) => run && figure(run))
    return value === undefined || other === undefined ? [] : [{ value, other }]
  })
  if (both.length === 0) return undefined
  return summarizeRatios(
    both.map(({ value }) => value),
    both.map(({ other }) => other),
  )
}
