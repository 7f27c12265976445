import { formatNumber, formatSize } from './format.js'
import { floorOf } from './parts/mixed.js'
import { processorTime, rate, ratioOf } from './rounds.js'
import { summarize } from './statistics.js'

/** @typedef {import('./report.js').Measured} Measured */
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

/** Leaves out what was not measured. @param {Measured} record */
function ratiosText({ results: { throughput = [], mixed = [], growth } }) {
  const largest = Math.max(...(growth?.filled ?? []).map(({ size }) => size))
  const of = (/** @type {string} */ name) => (/** @type {import('./parts/throughput.js').ThroughputRound} */ round) =>
    round[name]
  const parts = [
    phrase('of the rate of a server that only parses the bodies', ratioOf(throughput, of('ours'), of('floor'), rate)),
    phrase(
      'of it with 64 connections',
      ratioOf(mixed, (round) => round.ours?.['connections-64'], floorOf('connections-64'), rate),
    ),
    phrase('times its processor time an event', ratioOf(throughput, of('ours'), of('floor'), processorTime)),
    phrase('times the rate of Fastify with PostgreSQL', ratioOf(throughput, of('ours'), of('postgres'), rate)),
    phrase(
      `of the rate of an empty store with ${formatSize(largest)} events stored`,
      ratioOf(
        growth?.rounds ?? [],
        (round) => round.ours?.[largest],
        (round) => round.ours?.[0],
        rate,
      ),
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
