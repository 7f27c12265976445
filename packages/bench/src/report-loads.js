import { formatNumber, formatSummary, formatTable } from './format.js'
import { formatSize } from './measure-growth.js'
import { mixes } from './measure-mixed.js'
import { totalOf } from './processor-time.js'
import {
  growthFloorRatio,
  growthRatio,
  mixFloorRatio,
  mixRatio,
  processorTime,
  rate,
  throughputRatio,
} from './ratios.js'
import {
  formatFigure,
  formatOptional,
  formatThreads,
  latencyCells,
  processorCells,
  processorHead,
} from './report-cells.js'
import { summarize } from './statistics.js'

/** @typedef {import('./run-benchmark.js').Measured} Measured */
/** @typedef {import('./run-benchmark.js').Results} Results */

const processorNote =
  'Processor time is user and system time of the server’s process while it was measured, a median for each thread; threads of V8 collect garbage and compile, those of libuv wait for disks. PostgreSQL’s own processes are in its line where it was started for this run.'
const peersNote = 'Peers are measured in every third round.'

/** @param {Measured} record */
export function throughputTable({ results, contenders }) {
  const { throughput = [] } = results
  const rows = contenders.flatMap(({ name, title, missing }) => {
    const runs = throughput.flatMap((round) => (round[name] ? [round[name]] : []))
    if (runs.length === 0) {
      return missing === undefined ? [] : [[title, `not measured: ${missing}`, ...Array(7).fill('')]]
    }
    return [
      [
        title,
        formatFigure(runs, rate),
        formatSummary(throughputRatio(results, name, 'floor')),
        ...processorCells(runs, throughputRatio(results, name, 'floor', processorTime)),
        ...latencyCells(runs),
        name === 'embedded' ? '–' : formatFigure(runs, ({ loadCpu }) => loadCpu),
      ],
    ]
  })
  return [
    'Batches of 100 new events with random ids, on 16 connections, into an empty store.',
    formatTable(['', 'events/s', 'of the floor', ...processorHead, 'p50 ms', 'p99 ms', 'cores used by the load'], rows),
    processorNote,
    'Where the load used a whole core it was the load that was measured: the server could do more.',
  ].join('\n\n')
}

/** @param {Measured} record */
export function mixedTable({ results, contenders }) {
  const { mixed = [] } = results
  const measured = contenders.filter(({ name }) => mixed.some((round) => round[name]))
  const rows = mixes.flatMap((mix) => {
    return measured.flatMap(({ name, title }) => {
      const runs = mixed.flatMap((round) => round[name]?.[mix.name] ?? [])
      if (runs.length === 0) return []
      return [
        [
          mix.title,
          title,
          formatFigure(runs, rate),
          formatSummary(mixRatio(results, mix.name, name)),
          formatSummary(mixFloorRatio(results, mix.name, name)),
          ...processorCells(runs, mixFloorRatio(results, mix.name, name, processorTime)),
          ...latencyCells(runs),
        ],
      ]
    })
  })
  return [
    `One after another on one store, the contenders in turns. Repeats count as events, as each has to be looked up; every answer said exactly which were new. The floor keeps nothing, so repeats are compared with its new events. ${peersNote}`,
    formatTable(['load', '', 'events/s', 'of all new', 'of the floor', ...processorHead, 'p50 ms', 'p99 ms'], rows),
  ].join('\n\n')
}

/** @param {Measured} record */
export function growthSection({ results, contenders }) {
  const { growth } = results
  if (!growth) return ''
  const rows = contenders.flatMap(({ name, title }) => {
    const sizes = new Set(growth.rounds.flatMap((round) => Object.keys(round[name] ?? {}).map(Number)))
    return [...sizes].sort((x, y) => x - y).map((size) => growthRow(results, { name, title, size }))
  })
  const skipped = growth.skipped.map(({ size, contender, reason }) => {
    const title = contenders.find(({ name }) => name === contender)?.title ?? contender
    return `${title} with ${formatSize(size)} events is left out: ${reason}.`
  })
  return [
    `The same load on a store that is filled to one size after another and measured at each beside an empty one. The rounds add to it, so "stored" is their range. ${peersNote}`,
    formatTable(
      [
        '',
        'stored before',
        'events/s',
        'of empty',
        ...processorHead,
        'of empty',
        'p50 ms',
        'p99 ms',
        'open, ms',
        'own memory, MB: opened',
        'loaded',
      ],
      rows,
    ),
    ...(skipped.length > 0 ? [skipped.join('\n')] : []),
    ...(growth.filled.length > 0
      ? ['Filling, in process, and the disk right after it:', filledTable(growth.filled)]
      : []),
    'Memory is what the process has for itself (RssAnon and RssShmem) when it is at rest and after a full garbage collection. RSS would also count the pages of the data file that happen to be mapped, which is the cache of the operating system: it shrinks when other processes need the memory. Memory for each id is the difference between the process on the largest store and the one on the empty store, after the same load.',
  ].join('\n\n')
}

/** @param {Results} results @param {{ name: string, title: string, size: number }} of */
function growthRow(results, { name, title, size }) {
  const runs = (results.growth?.rounds ?? []).flatMap((round) => round[name]?.[size] ?? [])
  const stored = summarize(runs.map((run) => run.stored))
  const optional = (/** @type {'openMs' | 'openBytes' | 'loadedBytes'} */ key, scale = 1) => {
    const values = runs.flatMap((run) => run[key] ?? [])
    return values.length === 0 ? '–' : formatSummary(summarize(values.map((value) => value / scale)))
  }
  return [
    title,
    name !== 'ours' || stored.max === stored.min
      ? formatSize(size)
      : `${formatNumber(stored.min)}–${formatNumber(stored.max)}`,
    formatFigure(runs, rate),
    formatSummary(growthRatio(results, name, size)),
    ...processorCells(runs, growthFloorRatio(results, name, size, processorTime)),
    formatOptional(growthRatio(results, name, size, processorTime)),
    ...latencyCells(runs),
    optional('openMs'),
    optional('openBytes', 1e6),
    optional('loadedBytes', 1e6),
  ]
}

/** @param {import('./measure-growth.js').Filled[]} filled */
function filledTable(filled) {
  return formatTable(
    [
      'events',
      'filled at, events/s',
      'processor time, µs an event',
      'by thread',
      'log, bytes an event',
      'ids, bytes an id',
    ],
    filled.map(({ size, eventsPerSecond, processor, logBytes, idBytes }) => {
      const total = totalOf(processor)
      return [
        formatSize(size),
        formatNumber(eventsPerSecond),
        total === undefined ? '–' : formatNumber(total),
        formatThreads([processor]),
        formatNumber(logBytes),
        idBytes === undefined ? '–' : formatNumber(idBytes),
      ]
    }),
  )
}
