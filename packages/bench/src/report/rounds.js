import { totalOf } from '../contenders/processor-time.js'
import { formatNumber, formatSummary } from './format.js'
import { summarize, summarizeRatios } from './statistics.js'

// Summarizes runs of several rounds in the cells of a table.

/**
 * @typedef {import('../contenders/processor-time.js').ProcessorTime} ProcessorTime
 * @typedef {import('../load/send-load.js').LoadResult} LoadResult
 * @typedef {import('./statistics.js').Summary} Summary
 */

/** @template Run @typedef {(run: Run) => number | undefined} Figure undefined if it was not measured */
/** @template Round @template [Run=LoadResult] @typedef {(round: Round) => Run | undefined} Pick a run of a round */

/** @type {Figure<LoadResult>} */
export const rate = ({ eventsPerSecond }) => eventsPerSecond
/** Processor time per event, over all threads. @type {Figure<LoadResult>} */
export const processorTime = ({ processor }) => totalOf(processor)

/** @template Round, Run @param {readonly Round[]} rounds @param {Pick<Round, Run>} pick @returns {Run[]} */
export function runsOf(rounds, pick) {
  return rounds.flatMap((round) => pick(round) ?? [])
}

/**
 * One run relative to another, over the rounds that have both.
 *
 * @template Round, Run
 * @param {readonly Round[]} rounds
 * @param {Pick<Round, Run>} pick
 * @param {Pick<Round, Run>} base
 * @param {Figure<Run>} figure
 * @returns {Summary | undefined}
 */
export function ratioOf(rounds, pick, base, figure) {
  const both = rounds.flatMap((round) => {
    const [value, other] = [pick(round), base(round)].map((run) => run && figure(run))
    return value === undefined || other === undefined ? [] : [{ value, other }]
  })
  if (both.length === 0) return undefined
  return summarizeRatios(
    both.map(({ value }) => value),
    both.map(({ other }) => other),
  )
}

/** @template Run @param {readonly Run[]} runs @param {Figure<Run>} figure */
export function figureCell(runs, figure) {
  const values = runs.flatMap((run) => figure(run) ?? [])
  return values.length === 0 ? '–' : formatSummary(summarize(values))
}

/**
 * @template Round, Run
 * @param {readonly Round[]} rounds
 * @param {Pick<Round, Run>} pick
 * @param {Pick<Round, Run>} base
 * @param {Figure<Run>} figure
 */
export function ratioCell(rounds, pick, base, figure) {
  const ratio = ratioOf(rounds, pick, base, figure)
  return ratio ? formatSummary(ratio) : '–'
}

/** The head of {@link speedCells}. @param {string} [base] */
export function speedHead(base = 'of the floor') {
  return ['events/s', base, 'processor time, µs an event', base, 'by thread', 'p50 ms', 'p99 ms']
}

/**
 * @template Round
 * @param {readonly Round[]} rounds
 * @param {Pick<Round>} pick
 * @param {Pick<Round>} base
 */
export function speedCells(rounds, pick, base) {
  const runs = runsOf(rounds, pick)
  return [
    figureCell(runs, rate),
    ratioCell(rounds, pick, base, rate),
    figureCell(runs, processorTime),
    ratioCell(rounds, pick, base, processorTime),
    formatThreads(runs.map(({ processor }) => processor)),
    figureCell(runs, ({ p50Ms }) => p50Ms),
    figureCell(runs, ({ p99Ms }) => p99Ms),
  ]
}

/** @type {Record<import('../contenders/processor-time.js').Role, string>} */
const threadTitles = {
  main: 'main',
  writer: 'writer',
  index: 'index',
  chunks: 'chunks',
  helpers: 'V8 and libuv',
  others: 'others',
  database: 'database',
}

/** @param {readonly (ProcessorTime | undefined)[]} times */
export function formatThreads(times) {
  const parts = Object.entries(threadTitles).flatMap(([role, title]) => {
    const values = times.flatMap((time) => time?.[/** @type {keyof typeof threadTitles} */ (role)] ?? [])
    return values.some((value) => value > 0) ? [`${title} ${formatNumber(summarize(values).median)}`] : []
  })
  return parts.length === 0 ? '–' : parts.join(', ')
}
