import { rm } from 'node:fs/promises'
import { totalmem } from 'node:os'
import { join } from 'node:path'
import { diskBytes, freeDiskBytes } from '../contenders/disk-bytes.js'
import { openContender } from '../contenders/open-contender.js'
import { processorTimePerEvent, readProcessorTime, totalOf } from '../contenders/processor-time.js'
import { inTurn } from '../plan.js'
import { formatNumber, formatSize, formatTable } from '../report/format.js'
import {
  figureCell,
  formatThreads,
  processorTime,
  rate,
  ratioCell,
  runsOf,
  speedCells,
  speedHead,
} from '../report/rounds.js'
import { summarize } from '../report/statistics.js'

/**
 * @typedef {import('../contenders/find-contenders.js').Contender} Contender
 * @typedef {import('../contenders/open-contender.js').Context} Context
 * @typedef {import('../plan.js').Plan} Plan
 */

/**
 * An Ingest store after it was filled.
 *
 * @typedef {object} Filled
 * @property {number} size events
 * @property {number} eventsPerSecond of the filling, in process
 * @property {import('../contenders/processor-time.js').ProcessorTime | undefined} [processor] of the filling, in microseconds per
 *   event, including the making of batches
 * @property {number} logBytes on disk, per event
 * @property {number | undefined} idBytes on disk, per id; undefined without an `ids` directory
 */

/**
 * @typedef {import('../load/send-load.js').LoadResult & {
 *   stored: number, openMs?: number, openBytes?: number, loadedBytes?: number, diskBytes?: number
 * }} GrowthRun `stored` is the number of events before the run. Ingest also has `openMs`, and its memory after opening
 *   and after the load
 */

/** Runs by contender and size. @typedef {Record<string, Record<string, GrowthRun>>} GrowthRound */

/**
 * @typedef {object} Growth
 * @property {Filled[]} filled
 * @property {GrowthRound[]} rounds the planned number for each size, each with that size, an empty store and the floor
 * @property {{ size: number, reason: string }[]} skipped
 */

/** The size of an event in the log and the index, rounded up. */
const bytesPerEvent = 440
/** More than any contender stores. */
const eventsPerSecondMax = 500_000
const eventsPerStep = 5e6
/** The Ingest store that is filled step by step. */
const grownStore = 'grown'

/**
 * The usual load on growing stores. One Ingest store is filled to a size, measured in each round beside an empty one, and
 * filled further.
 *
 * @param {Context} context
 * @param {Plan} plan
 * @returns {Promise<Growth>}
 */
export async function measureGrowth(context, plan) {
  /** @type {Growth} */
  const growth = { filled: [], rounds: [], skipped: [] }
  const own = context.contenders.filter(({ name }) => name === 'floor' || name === 'ours')
  const ours = own.find(({ name }) => name === 'ours')
  for (const size of [...plan.sizes].filter((each) => each > 0).sort((x, y) => x - y)) {
    if (ours && !fitsOnDisk(context, plan, size, growth.skipped)) continue
    if (ours) growth.filled.push(await fillOurs(context, ours, size))
    for (let round = 0; round < plan.rounds; round++) {
      growth.rounds.push(await measureRound(context, plan, inTurn(own, round), size))
      context.log(`round ${round + 1}: ${formatSize(size)} events stored`)
    }
  }
  await rm(join(context.directory, `ours-${grownStore}`), { recursive: true, force: true })
  return growth
}

/** @param {Context} context @param {Plan} plan @param {number} size @param {Growth['skipped']} skipped */
function fitsOnDisk({ directory, log }, { rounds, seconds, warmupSeconds }, size, skipped) {
  const free = freeDiskBytes(directory) + diskBytes(join(directory, `ours-${grownStore}`))
  const needed = (size + rounds * (seconds + warmupSeconds) * eventsPerSecondMax) * bytesPerEvent
  if (needed < free * 0.95) return true
  const reason = `${(needed / 1e9).toFixed(0)} GB would be needed, and ${(free / 1e9).toFixed(0)} GB are free`
  skipped.push({ size, reason })
  log(`${formatSize(size)} EVENTS ARE LEFT OUT: ${reason}`)
  return false
}

/**
 * Fills the Ingest store until it holds `size` events.
 *
 * @param {Context} context @param {Contender} ours @param {number} size
 * @returns {Promise<Filled>}
 */
async function fillOurs(context, ours, size) {
  const options = { store: grownStore, isKept: true }
  let opened = await openContender(context, ours, options)
  if (opened.program.started.events > size) {
    // the rounds of the previous size have already added as many
    await opened.close()
    opened = await openContender(context, ours, { ...options, isFresh: true })
  }
  /** @type {number} */
  const storedBefore = opened.program.started.events
  const processorBefore = readProcessorTime(opened.watched)
  const before = performance.now()
  for (let stored = storedBefore; stored < size; ) {
    const events = Math.min(eventsPerStep, size - stored)
    await opened.program.call('preload', { events })
    stored += events
    context.log(`filled to ${formatSize(stored)} events`)
  }
  const seconds = (performance.now() - before) / 1000
  const processor = processorTimePerEvent(processorBefore, readProcessorTime(opened.watched), size - storedBefore)
  await opened.close()
  const idBytes = diskBytes(join(opened.directory, 'ids'))
  return {
    size,
    eventsPerSecond: (size - storedBefore) / seconds,
    processor,
    logBytes: diskBytes(join(opened.directory, 'events')) / size,
    idBytes: idBytes === 0 ? undefined : idBytes / size,
  }
}

/**
 * Measures each contender with an empty store, and with one of this size.
 *
 * @param {Context} context @param {Plan} plan @param {readonly Contender[]} contenders @param {number} size
 */
async function measureRound(context, plan, contenders, size) {
  /** @type {GrowthRound} */
  const runs = {}
  for (const contender of contenders) {
    // the floor stores nothing
    const sizes = contender.name === 'floor' ? [0] : [0, size]
    /** @type {GrowthRound[string]} */
    const own = {}
    for (const each of sizes) own[each] = await measureSize(context, contender, each, plan)
    runs[contender.name] = own
  }
  return runs
}

/**
 * @param {Context} context @param {Contender} contender @param {number} size @param {Plan} plan
 * @returns {Promise<GrowthRun>}
 */
async function measureSize(context, contender, size, { seconds, warmupSeconds }) {
  const isFresh = size === 0
  const store = isFresh ? 'empty' : grownStore
  const opened = await openContender(context, contender, { store, isFresh, isKept: !isFresh })
  const load = { seconds, warmupSeconds }
  try {
    if (contender.name !== 'ours') return { ...(await opened.send(load)), stored: size }
    const { events: stored, openMs } = opened.program.started
    const openBytes = await opened.program.call('memory')
    const run = await opened.send(load)
    const loadedBytes = await opened.program.call('memory')
    return { ...run, stored, openMs, openBytes, loadedBytes, diskBytes: diskBytes(opened.directory) }
  } finally {
    await opened.close()
  }
}

/** The sizes that a contender was measured with. @param {Growth} growth @param {string} name */
function sizesOf({ rounds }, name) {
  const sizes = rounds.flatMap((round) => Object.keys(round[name] ?? {}).map(Number))
  return [...new Set(sizes)].sort((x, y) => x - y)
}

/** @param {Growth} growth @param {readonly Contender[]} contenders */
export function growthSection(growth, contenders) {
  const rows = contenders.flatMap((contender) =>
    sizesOf(growth, contender.name).map((size) => growthRow(growth, contender, size)),
  )
  const skipped = growth.skipped.map(({ size, reason }) => {
    return `Ingest with ${formatSize(size)} events is left out: ${reason}.`
  })
  const ofEmpty = ['events/s relative to empty', 'processor time relative to empty']
  const memory = ['own memory when opened, MB', 'after the load, MB']
  return [
    'The load of "Throughput" runs on a store that is filled to one size after another, and each time on an empty store as well. Each round adds events, hence the ranges of "stored before".',
    formatTable(['', 'stored before', ...speedHead(), ...ofEmpty, 'open, ms', ...memory], rows),
    ...(skipped.length > 0 ? [skipped.join('\n')] : []),
    ...(growth.filled.length > 0
      ? [
          'The store is filled in process; its size on disk is measured right afterwards:',
          filledTable(growth.filled),
          ...memorySentences(growth.filled),
        ]
      : []),
    'Memory is what the process has for itself (RssAnon and RssShmem) when it is at rest and after a full garbage collection. When the store is opened, the filters of ids are not in memory yet: they are read before the first append. RSS would also count the pages of the data file that happen to be mapped, which is the cache of the operating system: it shrinks when other processes need memory. The memory that ids need is the difference between the largest store and the empty one, after the same load.',
  ].join('\n\n')
}

/** @param {Growth} growth @param {Contender} contender @param {number} size */
function growthRow({ rounds }, { name, title }, size) {
  const pick = (/** @type {GrowthRound} */ round) => round[name]?.[size]
  const empty = (/** @type {GrowthRound} */ round) => round[name]?.[0]
  const runs = runsOf(rounds, pick)
  const { min, max } = summarize(runs.map(({ stored }) => stored))
  const megabytes = (/** @type {number | undefined} */ bytes) => (bytes === undefined ? undefined : bytes / 1e6)
  return [
    title,
    min === max ? formatSize(size) : `${formatNumber(min)}–${formatNumber(max)}`,
    ...speedCells(rounds, pick, (round) => round.floor?.[0]),
    ratioCell(rounds, pick, empty, rate),
    ratioCell(rounds, pick, empty, processorTime),
    figureCell(runs, ({ openMs }) => openMs),
    figureCell(runs, ({ openBytes }) => megabytes(openBytes)),
    figureCell(runs, ({ loadedBytes }) => megabytes(loadedBytes)),
  ]
}

/** Explains figures of a store that exceeds the memory. @param {readonly Filled[]} filled */
function memorySentences(filled) {
  const bytes = Math.max(...filled.map(({ size, logBytes, idBytes = 0 }) => size * (logBytes + idBytes)))
  if (bytes <= totalmem()) return []
  return [
    `The largest store takes ${(bytes / 1e9).toFixed(0)} GB on disk, more than the memory of ${(totalmem() / 2 ** 30).toFixed(1)} GiB. The page cache cannot hold it, so look-ups may read blocks of the id index from the disk. How much this, rather than the number of ids, slows the store down was not measured.`,
  ]
}

/** @param {readonly Filled[]} filled */
function filledTable(filled) {
  const head = ['events', 'filled at, events/s', 'processor time, µs an event', 'by thread']
  return formatTable(
    [...head, 'log, bytes an event', 'ids, bytes an id'],
    filled.map(({ size, eventsPerSecond, processor, logBytes, idBytes }) => [
      formatSize(size),
      formatNumber(eventsPerSecond),
      formatNumber(totalOf(processor) ?? Number.NaN),
      formatThreads([processor]),
      formatNumber(logBytes),
      formatNumber(idBytes ?? Number.NaN),
    ]),
  )
}
