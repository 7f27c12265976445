import { cp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { projectId } from './contenders.js'
import { diskBytes, freeDiskBytes } from './disk-bytes.js'
import { makeBatch } from './make-batch.js'
import { openContender, syncDisks } from './open-contender.js'
import { contendersOfRound, usualLoad } from './plan.js'
import { processorTimePerEvent, readProcessorTime } from './processor-time.js'
import { startProgram } from './start-program.js'

/** @typedef {import('./contenders.js').Contender} Contender */
/** @typedef {import('./open-contender.js').Context} Context */
/** @typedef {import('./plan.js').Plan} Plan */

/**
 * A store of ours that was filled before it is measured.
 *
 * @typedef {object} Filled
 * @property {number} size events
 * @property {number} eventsPerSecond with which it was filled from what it held before, in process
 * @property {import('./processor-time.js').ProcessorTime | undefined} [processor] meanwhile, in microseconds an event,
 *   with making the batches
 * @property {number} logBytes an event, on disk
 * @property {number | undefined} idBytes an id, on disk; undefined when there is no `ids` directory
 */

/**
 * @typedef {import('./send-load.js').LoadResult & {
 *   stored: number, openMs?: number, openBytes?: number, loadedBytes?: number, diskBytes?: number
 * }} GrowthRun `stored` events before it, and for ours how long it took to open, and the memory of its own, in bytes,
 *   when it was open and after the load
 */

/**
 * @typedef {object} Growth
 * @property {Filled[]} filled
 * @property {Record<string, Record<string, GrowthRun>>[]} rounds by contender and size: for each size as many rounds as
 *   planned, which also have an empty store, and the floor as one
 * @property {{ size: number, contender: string, reason: string }[]} skipped
 */

/** An event with its place in the log and the index, rounded up. */
const bytesPerEvent = 440
/** What a round may add: as many events a second would be a lot. */
const eventsPerSecondMax = 500_000
const measuredPeers = ['postgres', 'lmdb-table', 'sqlite']
const eventsPerStep = 5e6
/** The store that is filled more and more. */
const grownStore = 'grown'
/** The store of ours that growth leaves behind, or an empty one. */
export const recoveryStore = 'recovery'

/**
 * The usual load on stores that hold more and more. One store of ours is filled to a size, measured in each round beside
 * an empty one, and filled further. What it holds at `recoverySize` is kept as {@link recoveryStore}.
 *
 * @param {Context} context
 * @param {Plan} plan
 * @returns {Promise<Growth>}
 */
export async function measureGrowth(context, plan) {
  /** @type {Growth} */
  const growth = { filled: [], rounds: [], skipped: [] }
  const contenders = context.contenders.filter(({ name }) => {
    return name === 'floor' || name === 'ours' || (plan.name === 'full' && measuredPeers.includes(name))
  })
  const peers = contenders.filter(({ isPeer }) => isPeer)
  const own = contenders.filter((each) => !peers.includes(each))
  const hasOurs = own.some(({ name }) => name === 'ours')
  const sizes = plan.sizes.filter((size) => size > 0).sort((x, y) => x - y)
  const kept = Math.max(...sizes.filter((size) => size <= plan.recoverySize))
  for (const size of sizes) {
    const isKept = size === kept
    if (hasOurs && !(await fitsOnDisk(context, plan, { size, isKept, skipped: growth.skipped }))) continue
    if (hasOurs) growth.filled.push(await fillOurs(context, size))
    if (hasOurs && isKept) await keepForRecovery(context)
    const filled = peers.filter((peer) => canBeFilled(peer, size, growth.skipped))
    for (const peer of filled) await fillPeer(context, peer, size)
    await syncDisks()
    for (let round = 0; round < plan.rounds; round++) {
      const chosen = contendersOfRound([...own, ...filled], round)
      growth.rounds.push(await measureRound(context, plan, chosen, size))
      context.log(`round ${round + 1}: ${formatSize(size)} events stored`)
    }
    for (const peer of filled) await emptyPeer(context, peer, size)
  }
  await rm(join(context.directory, `ours-${grownStore}`), { recursive: true, force: true })
  return growth
}

/** @param {number} size */
export function formatSize(size) {
  return size >= 1e6 ? `${size / 1e6} M` : size.toLocaleString('en')
}

/**
 * @param {Context} context
 * @param {Plan} plan
 * @param {{ size: number, isKept: boolean, skipped: Growth['skipped'] }} options
 */
async function fitsOnDisk(context, { rounds, seconds, warmupSeconds }, { size, isKept, skipped }) {
  const free = freeDiskBytes(context.directory) + diskBytes(join(context.directory, `ours-${grownStore}`))
  const added = rounds * (seconds + warmupSeconds) * eventsPerSecondMax
  const needed = (size + added + (isKept ? size : 0)) * bytesPerEvent
  if (needed < free * 0.95) return true
  const reason = `${(needed / 1e9).toFixed(0)} GB would be needed, and ${(free / 1e9).toFixed(0)} GB are free`
  skipped.push({ size, contender: 'ours', reason })
  context.log(`${formatSize(size)} EVENTS ARE LEFT OUT: ${reason}`)
  return false
}

/**
 * Fills the store of ours until it holds so many events.
 *
 * @param {Context} context
 * @param {number} size
 * @returns {Promise<Filled>}
 */
async function fillOurs(context, size) {
  const directory = join(context.directory, `ours-${grownStore}`)
  let program = await startProgram('servers/preload.js', { directory, projectId })
  if (program.started.events > size) {
    // the rounds of a size that is hardly smaller have added too many
    await program.stop()
    await rm(directory, { recursive: true })
    program = await startProgram('servers/preload.js', { directory, projectId })
  }
  const processorBefore = readProcessorTime(program)
  const before = performance.now()
  /** @type {number} */
  const storedBefore = program.started.events
  let stored = storedBefore
  while (stored < size) {
    stored = await program.call('append', { events: Math.min(eventsPerStep, size - stored) })
    context.log(`filled to ${formatSize(stored)} events`)
  }
  const seconds = (performance.now() - before) / 1000
  const added = stored - storedBefore
  const processor = processorTimePerEvent(processorBefore, readProcessorTime(program), added)
  await program.stop()
  const idBytes = diskBytes(join(directory, 'ids'))
  return {
    size,
    eventsPerSecond: added / seconds,
    processor,
    logBytes: diskBytes(join(directory, 'events')) / stored,
    idBytes: idBytes === 0 ? undefined : idBytes / stored,
  }
}

/** @param {Context} context */
async function keepForRecovery({ directory }) {
  await cp(join(directory, `ours-${grownStore}`), join(directory, `ours-${recoveryStore}`), { recursive: true })
}

/** @param {Contender} peer @param {number} size @param {Growth['skipped']} skipped */
function canBeFilled({ name, preloadMax = 0 }, size, skipped) {
  if (size <= preloadMax) return true
  skipped.push({ size, contender: name, reason: `filling it beyond ${formatSize(preloadMax)} takes too long` })
  return false
}

/** @param {Context} context @param {Contender} peer @param {number} size */
async function fillPeer(context, peer, size) {
  const event = JSON.parse(makeBatch(projectId, 1).body.toString()).events[0]
  const opened = await openContender(context, peer, { store: storeOf(peer, size), isFresh: true, isKept: true })
  await opened.program.call('preload', { events: size, event })
  await opened.close()
  context.log(`${peer.title}: filled to ${formatSize(size)} events`)
}

/** The disk is needed for what comes next. @param {Context} context @param {Contender} peer @param {number} size */
async function emptyPeer(context, peer, size) {
  const opened = await openContender(context, peer, { store: storeOf(peer, size), isFresh: true })
  await opened.close()
}

/**
 * Each contender with an empty store, and with one of this size.
 *
 * @param {Context} context
 * @param {Plan} plan
 * @param {readonly Contender[]} contenders
 * @param {number} size
 */
async function measureRound(context, plan, contenders, size) {
  /** @type {Growth['rounds'][number]} */
  const runs = {}
  for (const contender of contenders) {
    runs[contender.name] = { 0: await measureSize(context, contender, 0, plan) }
    // it keeps nothing
    if (contender.name === 'floor') continue
    runs[contender.name] = { ...runs[contender.name], [size]: await measureSize(context, contender, size, plan) }
  }
  return runs
}

/**
 * @param {Context} context
 * @param {Contender} contender
 * @param {number} size
 * @param {Plan} plan
 * @returns {Promise<GrowthRun>}
 */
async function measureSize(context, contender, size, { seconds, warmupSeconds }) {
  const isFresh = size === 0
  const store = storeOf(contender, size)
  const opened = await openContender(context, contender, { store, isFresh, isKept: !isFresh })
  const load = { ...usualLoad, seconds, warmupSeconds }
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

/** @param {Contender} contender @param {number} size */
function storeOf({ name }, size) {
  return name === 'ours' && size > 0 ? grownStore : `with_${size}`
}
