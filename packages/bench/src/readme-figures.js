import { formatNumber } from './format.js'
import { formatSize } from './measure-growth.js'
import { growthRatio, mixFloorRatio, processorTime, throughputRatio } from './ratios.js'
import { summarize } from './statistics.js'

/** @typedef {import('./run-benchmark.js').Measured} Measured */
/** @typedef {import('./statistics.js').Summary} Summary */

const lineLength = 120

/**
 * A README with the figures of a run in its two blocks: `<!--figures:rate-->` and `<!--figures:ratios-->`, each up to
 * `<!--/figures-->`. A line must not begin with a marker, or Markdown would take it for HTML.
 *
 * @param {string} readme
 * @param {Measured} record
 * @throws {Error} when a block is missing
 */
export function withFigures(readme, record) {
  return Object.entries({ rate: rateText(record), ratios: ratiosText(record) }).reduce((text, [name, figures]) => {
    const [found, start] = new RegExp(`^(.+<!--figures:${name}-->)[^]*?<!--/figures-->`, 'm').exec(text) ?? []
    if (found === undefined) throw new Error(`there is no block <!--figures:${name}-->`)
    return text.replace(found, () => wrap(`${start}${figures}<!--/figures-->`))
  }, readme)
}

/** @param {Measured} record */
function rateText({ measuredAt, machine, plan, results }) {
  const runs = (results.throughput ?? []).flatMap(({ ours }) => ours ?? [])
  if (runs.length === 0) throw new Error('the throughput of ours was not measured')
  const median = (/** @type {'eventsPerSecond' | 'p50Ms' | 'p99Ms'} */ key) =>
    formatNumber(summarize(runs.map((run) => run[key])).median)
  const fact = (/** @type {string} */ wanted) => machine.find(({ label }) => label === wanted)?.value ?? 'unknown'
  return [
    `${median('eventsPerSecond')} events/s over HTTP, p50 ${median('p50Ms')} ms, p99 ${median('p99Ms')} ms: `,
    'durable batches of 100 on 16 connections; ',
    `${fact('processor')}, ${fact('memory')}, Node ${fact('Node')}, with the load on the same machine; `,
    `median of ${plan.rounds} rounds on ${measuredAt.slice(0, 10)} ([benchmark](#benchmark)).`,
  ].join('')
}

/** What was not measured is left out. @param {Measured} record */
function ratiosText({ results }) {
  const sizes = (results.growth?.filled ?? []).map(({ size }) => size)
  const largest = Math.max(...sizes)
  const parts = [
    phrase('of the rate of a server that only parses the bodies', throughputRatio(results, 'ours', 'floor')),
    phrase('of it with 64 connections', mixFloorRatio(results, 'connections-64')),
    phrase('times its processor time an event', throughputRatio(results, 'ours', 'floor', processorTime)),
    phrase('times the rate of Fastify with PostgreSQL', throughputRatio(results, 'ours', 'postgres')),
    phrase(
      `of the rate of an empty store with ${formatSize(largest)} events stored`,
      growthRatio(results, 'ours', largest),
    ),
  ]
  return `${parts.flatMap((part) => part ?? []).join('; ')}.`
}

/** @param {string} what @param {Summary | undefined} ratio */
function phrase(what, ratio) {
  return ratio && `${formatNumber(ratio.median)} ${what}`
}

/** Below the first line of a list item, lines are indented as far as its text. @param {string} text */
function wrap(text) {
  const indent = text.startsWith('- ') ? '  ' : ''
  return text.split(/\s+/).reduce((lines, word) => {
    const line = lines.slice(lines.lastIndexOf('\n') + 1)
    if (lines === '') return word
    return `${line} ${word}`.length > lineLength ? `${lines}\n${indent}${word}` : `${lines} ${word}`
  }, '')
}
