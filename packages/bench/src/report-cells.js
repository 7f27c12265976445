import { formatNumber, formatSummary } from './format.js'
import { processorTime } from './ratios.js'
import { summarize } from './statistics.js'

/** @typedef {import('./processor-time.js').ProcessorTime} ProcessorTime */
/** @typedef {import('./send-load.js').LoadResult} LoadResult */
/** @typedef {import('./statistics.js').Summary} Summary */

/** Over {@link processorCells}. */
export const processorHead = ['processor time, µs an event', 'of the floor', 'by thread']

/** @param {readonly LoadResult[]} runs @param {Summary | undefined} ofFloor their processor time of the floor's */
export function processorCells(runs, ofFloor) {
  return [
    formatFigure(runs, processorTime),
    formatOptional(ofFloor),
    formatThreads(runs.map(({ processor }) => processor)),
  ]
}

/** @param {readonly LoadResult[]} runs */
export function latencyCells(runs) {
  return [formatFigure(runs, ({ p50Ms }) => p50Ms), formatFigure(runs, ({ p99Ms }) => p99Ms)]
}

/** @param {readonly LoadResult[]} runs @param {import('./ratios.js').Figure} figure */
export function formatFigure(runs, figure) {
  const values = runs.flatMap((run) => figure(run) ?? [])
  return values.length === 0 ? '–' : formatSummary(summarize(values))
}

/** @param {Summary | undefined} summary */
export function formatOptional(summary) {
  return summary ? formatSummary(summary) : '–'
}

/** @type {Record<import('./processor-time.js').Role, string>} */
const threadTitles = {
  main: 'main',
  writer: 'writer',
  index: 'index',
  chunks: 'chunks',
  helpers: 'V8 and libuv',
  others: 'others',
  database: 'PostgreSQL',
}

/** @param {readonly (ProcessorTime | undefined)[]} times */
export function formatThreads(times) {
  const parts = Object.entries(threadTitles).flatMap(([role, title]) => {
    const values = times.flatMap((time) => time?.[/** @type {keyof typeof threadTitles} */ (role)] ?? [])
    return values.some((value) => value > 0) ? [`${title} ${formatNumber(summarize(values).median)}`] : []
  })
  return parts.length === 0 ? '–' : parts.join(', ')
}
