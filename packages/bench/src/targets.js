import { formatSize } from './measure-growth.js'
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
export function judgeTargets(results, { seconds }) {
  const targets = targetsOf(results)
  if (seconds >= secondsMin) return targets
  return targets.map((target) => ({ ...target, verdict: target.found ? tooSmall : target.verdict }))
}

const tooSmall = 'measured too small to judge'

/** @param {Results} results @returns {Target[]} */
function targetsOf(results) {
  const { growth, latency, recovery, uploads } = results
  const filled = growth?.filled.at(-1)?.size ?? 0
  return [
    atLeast('HTTP, durable, against a server that only parses', 0.5, throughputRatio(results, 'ours', 'floor')),
    atLeast('the same, against Fastify + PostgreSQL, empty', 4, throughputRatio(results, 'ours', 'postgres')),
    ...growthTargets(results),
    atLeast('in process, against HTTP', 1.5, throughputRatio(results, 'embedded', 'ours')),
    atLeast('whole batches sent again, against new ones', 0.7, mixRatio(results, 'again')),
    atMost(
      'memory of its own beyond an empty store, for each stored id',
      3,
      memoryPerId(results),
      ' bytes',
      filled >= idsMin,
    ),
    atMost('`data/ids` on disk, for each id', 32, idBytes(results), ' bytes', filled >= idsMin),
    atMost(
      `open after kill -9 under load${sizeNote(recovery?.opens)}`,
      2000,
      recovery && recovery.opens.length > 0 ? summarize(recovery.opens.map(({ openMs }) => openMs)) : undefined,
      ' ms',
      eventsOf(recovery?.opens) >= 10e6,
    ),
    atLeast(
      `rebuild of \`data/ids\`${sizeNote(recovery?.rebuilds)}`,
      1e6,
      recovery && recovery.rebuilds.length > 0
        ? summarize(recovery.rebuilds.map(({ events, openMs }) => (events / openMs) * 1000))
        : undefined,
      ' ids/s',
      eventsOf(recovery?.rebuilds) >= rebuiltMin,
    ),
    atMost(
      'p99 latency at half of the highest rate, against p50',
      5,
      latency && summarizeRatios(pick(latency.rounds, 'p99Ms'), pick(latency.rounds, 'p50Ms')),
      ' ×',
      latency !== undefined && latency.indexed >= mergeIds,
    ),
    atMost(
      'p99 latency while maps are uploaded, against without',
      1.5,
      uploads &&
        summarizeRatios(
          uploads.rounds.map(({ during }) => during.p99Ms),
          uploads.rounds.map(({ without }) => without.p99Ms),
        ),
    ),
    atLeast(
      'publishing a new map of 55 MB',
      150,
      uploads && summarize(uploads.published.map(({ bytes, newMs }) => bytes / 1e3 / newMs)),
      ' MB/s',
    ),
  ]
}

/**
 * What a contender reaches of another, in the same rounds.
 *
 * @param {Results} results @param {string} name @param {string} other
 * @returns {Summary | undefined}
 */
export function throughputRatio({ throughput = [] }, name, other) {
  const rounds = throughput.filter((runs) => runs[name] && runs[other])
  const rates = (/** @type {string} */ each) => rounds.map((runs) => runs[each]?.eventsPerSecond ?? 0)
  return rounds.length === 0 ? undefined : summarizeRatios(rates(name), rates(other))
}

/**
 * What a contender reaches with so many events stored of what it reaches with none.
 *
 * @param {Results} results @param {string} name @param {number} size
 * @returns {Summary | undefined}
 */
export function growthRatio({ growth }, name, size) {
  const rounds = (growth?.rounds ?? []).map((byContender) => byContender[name] ?? {})
  const both = rounds.flatMap(({ 0: empty, [size]: full }) => (empty && full ? [{ empty, full }] : []))
  if (both.length === 0) return undefined
  return summarizeRatios(
    both.map(({ full }) => full.eventsPerSecond),
    both.map(({ empty }) => empty.eventsPerSecond),
  )
}

/**
 * What ours reaches with a mixed load of what it reaches with new batches.
 *
 * @param {Results} results @param {string} mix @param {string} [name]
 * @returns {Summary | undefined}
 */
export function mixRatio({ mixed = [] }, mix, name = 'ours') {
  const both = mixed.flatMap(({ [name]: runs }) =>
    runs?.new && runs[mix] ? [{ fresh: runs.new, other: runs[mix] }] : [],
  )
  if (both.length === 0) return undefined
  return summarizeRatios(
    both.map(({ other }) => other.eventsPerSecond),
    both.map(({ fresh }) => fresh.eventsPerSecond),
  )
}

/** @param {Results} results @returns {Target[]} */
function growthTargets(results) {
  return [10e6, 50e6].map((size) => {
    return atLeast(`with ${formatSize(size)} events stored, against none`, 0.8, growthRatio(results, 'ours', size))
  })
}

/** The growth of memory from the empty store to the largest one, after the same load. @param {Results} results */
function memoryPerId({ growth }) {
  const perId = (growth?.rounds ?? []).flatMap(({ ours = {} }) => {
    const runs = Object.values(ours)
    const empty = runs.find(({ stored }) => stored === 0)
    const largest = runs.reduce((most, run) => (run.stored > most.stored ? run : most), runs[0] ?? { stored: 0 })
    if (empty?.loadedBytes === undefined || !('loadedBytes' in largest) || largest.loadedBytes === undefined) return []
    return largest.stored === 0 ? [] : [(largest.loadedBytes - empty.loadedBytes) / largest.stored]
  })
  return perId.length === 0 ? undefined : summarize(perId)
}

/** Of the largest store, as it was filled. @param {Results} results */
function idBytes({ growth }) {
  const bytes = growth?.filled.at(-1)?.idBytes
  return bytes === undefined ? undefined : summarize([bytes])
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
function atLeast(what, bound, found, unit = ' ×', isEnough = true) {
  return target({ what, side: 'at least', bound, unit, found }, isEnough)
}

/**
 * @param {string} what @param {number} bound @param {Summary | undefined} found @param {string} [unit]
 * @param {boolean} [isEnough]
 * @returns {Target}
 */
function atMost(what, bound, found, unit = ' ×', isEnough = true) {
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
