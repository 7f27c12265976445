import { formatSize } from './measure-growth.js'
import { growthRatio, mainThreadTime, mixFloorRatio, mixRatio, processorTime, throughputRatio } from './ratios.js'
import { summarize, summarizeRatios } from './statistics.js'

/**
 * @typedef {object} Target
 * @property {string} what
 * @property {'at least' | 'at most'} side
 * @property {number} bound
 * @property {string} unit
 * @property {import('./statistics.js').Summary | undefined} found
 * @property {'reached' | 'missed' | 'not measured' | 'measured too small to judge'} verdict
 */

/** @typedef {import('./run-benchmark.js').Results} Results */
/** @typedef {import('./statistics.js').Summary} Summary */

/**
 * As many ids as a store must hold before memory and disk are divided by them: below, what a process and its tables of
 * the newest ids take by themselves is most of it.
 */
const idsMin = 10e6
/** As many ids as are rebuilt for longer than a moment. */
const rebuiltMin = 1e6
/** As many ids bring about a merge of eight runs of 2^18. */
const mergeIds = 8 * 2 ** 18
/** Runs that are shorter say nothing about speed. */
const secondsMin = 1

/**
 * What was found beside what is to be reached.
 *
 * @param {Results} results
 * @param {{ seconds: number }} plan
 * @returns {Target[]}
 */
export function judgeTargets(results, plan) {
  return judge(targetsOf(results), plan)
}

/** @param {Target[]} targets @param {{ seconds: number }} plan @returns {Target[]} */
export function judge(targets, { seconds }) {
  if (seconds >= secondsMin) return targets
  return targets.map((target) => ({ ...target, verdict: target.found ? tooSmall : target.verdict }))
}

const tooSmall = 'measured too small to judge'

/** @param {Results} results @returns {Target[]} */
function targetsOf(results) {
  return [
    ...throughputTargets(results),
    ...growthTargets(results),
    ...mixTargets(results),
    ...sizeTargets(results),
    ...recoveryTargets(results),
    ...latencyTargets(results),
    ...uploadTargets(results),
    ...sendTargets(results),
  ]
}

/** @param {Results} results */
function throughputTargets(results) {
  return [
    atMost(
      'processor time an event, against the floor (stretch: 1.5)',
      1.8,
      throughputRatio(results, 'ours', 'floor', processorTime),
    ),
    atMost(
      'processor time an event of the main thread, against that of the floor',
      0.75,
      throughputRatio(results, 'ours', 'floor', mainThreadTime),
    ),
    atLeast('events/s over HTTP, durable, against the floor', 0.75, throughputRatio(results, 'ours', 'floor')),
    atLeast('the same with 64 connections', 0.9, mixFloorRatio(results, 'connections-64')),
    atLeast('events/s against Fastify + PostgreSQL, empty', 8, throughputRatio(results, 'ours', 'postgres')),
    atLeast('events/s in process, against HTTP', 1.5, throughputRatio(results, 'embedded', 'ours')),
  ]
}

/** @param {Results} results */
function growthTargets(results) {
  return [10e6, 50e6, 100e6].map((size) => {
    return atLeast(
      `events/s with ${formatSize(size)} events stored, against none`,
      0.9,
      growthRatio(results, 'ours', size),
    )
  })
}

/** @param {Results} results */
function mixTargets(results) {
  return [
    atLeast('events/s with 1 % repeats, against all new', 0.8, mixRatio(results, 'repeats-1')),
    atLeast('events/s with 50 % repeats, against all new', 0.75, mixRatio(results, 'repeats-50')),
    atLeast('events/s of whole batches sent again, against all new', 0.7, mixRatio(results, 'again')),
    atLeast('events/s with 1 event a batch, against the floor', 0.35, mixFloorRatio(results, 'single')),
    atMost(
      'processor time an event with 1 event a batch, against the floor',
      4,
      mixFloorRatio(results, 'single', 'ours', processorTime),
    ),
  ]
}

/** @param {Results} results */
function sizeTargets(results) {
  const filled = results.growth?.filled.at(-1)
  const isEnough = filled !== undefined && filled.size >= idsMin
  const idBytes = filled?.idBytes === undefined ? undefined : summarize([filled.idBytes])
  return [
    atMost(
      'memory of its own beyond an empty store, for each stored id',
      1.5,
      memoryPerId(results),
      ' bytes',
      isEnough,
    ),
    atMost('`data/ids` on disk, for each id', 26, idBytes, ' bytes', isEnough),
  ]
}

/** @param {Results} results */
function recoveryTargets({ recovery }) {
  const { opens = [], rebuilds = [] } = recovery ?? {}
  const summaryOf = (/** @type {number[]} */ values) => (values.length === 0 ? undefined : summarize(values))
  return [
    atMost(
      `open after kill -9 under load${sizeNote(opens)}`,
      2000,
      summaryOf(pick(opens, 'openMs')),
      ' ms',
      eventsOf(opens) >= 10e6,
    ),
    atLeast(
      `rebuild of \`data/ids\`${sizeNote(rebuilds)}`,
      1e6,
      summaryOf(rebuilds.map(({ events, openMs }) => (events / openMs) * 1000)),
      ' ids/s',
      eventsOf(rebuilds) >= rebuiltMin,
    ),
  ]
}

/** @param {Results} results */
function latencyTargets({ latency }) {
  return [
    atMost(
      'p99 latency at half of the highest rate, while runs are merged, against p50',
      4,
      latency && summarizeRatios(pick(latency.rounds, 'p99Ms'), pick(latency.rounds, 'p50Ms')),
      ' ×',
      latency !== undefined && latency.indexed >= mergeIds,
    ),
  ]
}

/** @param {Results} results */
function uploadTargets({ uploads }) {
  const p99s = (/** @type {'during' | 'without'} */ key) => (uploads?.rounds ?? []).map((round) => round[key].p99Ms)
  return [
    atMost(
      'p99 latency while maps are uploaded, against without',
      1.5,
      uploads && summarizeRatios(p99s('during'), p99s('without')),
    ),
    atLeast(
      'publishing a new map of 55 MB',
      150,
      uploads && summarize(uploads.published.map(({ bytes, newMs }) => bytes / 1e3 / newMs)),
      ' MB/s',
    ),
  ]
}

/** @param {Results} results */
function sendTargets({ send = [] }) {
  const found = send.length > 0 ? summarizeRatios(pick(send, 'command'), pick(send, 'loop')) : undefined
  return [atMost('processor time an event of `ingest send`, against the load of these measurements', 5, found)]
}

/** The growth of memory from the empty store to the largest one, after the same load. @param {Results} results */
function memoryPerId({ growth }) {
  const largest = growth?.filled.at(-1)?.size ?? 0
  const perId = (growth?.rounds ?? []).flatMap(({ ours = {} }) => {
    const { 0: empty, [largest]: full } = ours
    if (empty?.loadedBytes === undefined || full?.loadedBytes === undefined || full.stored === 0) return []
    return [(full.loadedBytes - empty.loadedBytes) / full.stored]
  })
  return perId.length === 0 ? undefined : summarize(perId)
}

/** @param {{ events: number }[] | undefined} opens */
function sizeNote(opens) {
  return opens && opens.length > 0 ? `, ${formatMillions(eventsOf(opens))} events` : ''
}

/** @param {{ events: number }[] | undefined} opens */
function eventsOf(opens = []) {
  return opens.length > 0 ? Math.min(...pick(opens, 'events')) : 0
}

/** @param {number} events */
function formatMillions(events) {
  return events >= 1e5 ? `${(events / 1e6).toFixed(1)} M` : events.toLocaleString('en')
}

/** @template {string} K @param {readonly Record<K, number>[]} rounds @param {K} name */
function pick(rounds, name) {
  return rounds.map((round) => round[name])
}

/**
 * @param {string} what @param {number} bound @param {Summary | undefined} found @param {string} [unit]
 * @param {boolean} [isEnough] whether what was measured is large enough for the target
 * @returns {Target}
 */
export function atLeast(what, bound, found, unit = ' ×', isEnough = true) {
  return target({ what, side: 'at least', bound, unit, found }, isEnough)
}

/**
 * @param {string} what @param {number} bound @param {Summary | undefined} found @param {string} [unit]
 * @param {boolean} [isEnough]
 * @returns {Target}
 */
export function atMost(what, bound, found, unit = ' ×', isEnough = true) {
  return target({ what, side: 'at most', bound, unit, found }, isEnough)
}

/** @param {Omit<Target, 'verdict'>} target @param {boolean} isEnough @returns {Target} */
function target({ side, bound, found, ...rest }, isEnough) {
  return { ...rest, side, bound, found, verdict: verdict() }

  /** @returns {Target['verdict']} */
  function verdict() {
    if (!found) return 'not measured'
    if (!isEnough) return tooSmall
    return (side === 'at least' ? found.median >= bound : found.median <= bound) ? 'reached' : 'missed'
  }
}
