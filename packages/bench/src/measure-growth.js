import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import { projectId } from './contenders.js'
import { diskBytes, freeDiskBytes } from './disk-bytes.js'
import { makeBatch } from './make-batch.js'
import { openContender, syncDisks } from './open-contender.js'
import { usualLoad } from './plan.js'
import { startProgram } from './start-program.js'

/**
 * A store of ours that was filled before it is measured.
 *
 * @typedef {object} Filled
 * @property {number} size events
 * @property {number} eventsPerSecond with which it was filled from the size before, in process
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
 * @property {Record<string, Record<string, GrowthRun>>[]} rounds by contender and size
 * @property {{ size: number, contender: string, reason: string }[]} skipped
 */

/** An event with its place in the log and the index, rounded up, and what the rounds add to it. */
const bytesPerEvent = 450
const peers = ['postgres', 'lmdb-table', 'sqlite']
const eventsPerStep = 5e6

/**
 * The usual load on stores that hold more and more, round by round. The stores are kept, so that the next measurement
 * finds them.
 *
 * @param {import('./open-contender.js').Context} context
 * @param {import('./plan.js').Plan} plan
 * @returns {Promise<Growth>}
 */
export async function measureGrowth(context, plan) {
  /** @type {Growth} */
  const growth = { filled: [], rounds: [], skipped: [] }
  const sizes = fittingSizes(context, plan, growth.skipped)
  const ours = context.contenders.filter(({ name }) => name === 'ours')
  const others = context.contenders.filter(({ name }) => peers.includes(name) && plan.name === 'full')
  if (ours.length > 0) growth.filled = await fillStores(context, sizes)
  for (const peer of others) await fillPeer(context, peer, sizes, growth.skipped)

  for (let round = 0; round < plan.rounds; round++) {
    /** @type {Record<string, Record<string, GrowthRun>>} */
    const byContender = {}
    for (const contender of [...ours, ...others]) {
      /** @type {Record<string, GrowthRun>} */
      const bySize = {}
      for (const size of sizes) {
        if (size > (contender.preloadMax ?? Number.POSITIVE_INFINITY)) continue
        const run = await measureSize(context, contender, size, plan)
        bySize[size] = run
        const rate = Math.round(run.eventsPerSecond).toLocaleString('en')
        context.log(`round ${round + 1}: ${contender.title} with ${formatSize(size)} stored: ${rate} events/s`)
      }
      byContender[contender.name] = bySize
    }
    growth.rounds.push(byContender)
  }
  return growth
}

/** @param {number} size */
export function formatSize(size) {
  return size >= 1e6 ? `${size / 1e6} M` : size.toLocaleString('en')
}

/** @param {number} size */
export function storeOf(size) {
  return `with_${size}`
}

/**
 * @param {import('./open-contender.js').Context} context
 * @param {import('./plan.js').Plan} plan
 * @param {Growth['skipped']} skipped
 */
function fittingSizes(context, { sizes, rounds, seconds }, skipped) {
  const free = freeDiskBytes(context.directory)
  let needed = 0
  return [...sizes]
    .sort((x, y) => x - y)
    .filter((size) => {
      // what the load adds: half a million events a second would be a lot
      needed += (size + rounds * seconds * 500_000) * bytesPerEvent
      if (needed < free * 0.9) return true
      const reason = `${(needed / 1e9).toFixed(0)} GB would be needed, and ${(free / 1e9).toFixed(0)} GB are free`
      skipped.push({ size, contender: 'ours', reason })
      context.log(`${formatSize(size)} events are left out: ${reason}`)
      return false
    })
}

/** @param {import('./open-contender.js').Context} context @param {number[]} sizes @returns {Promise<Filled[]>} */
async function fillStores(context, sizes) {
  /** @type {Filled[]} */
  const filled = []
  let stored = 0
  let from = ''
  for (const size of sizes.filter((each) => each > 0)) {
    const directory = join(context.directory, `ours-${storeOf(size)}`)
    if (from !== '') await cp(from, directory, { recursive: true })
    const { seconds, added } = await fillStore(context, directory, size - stored)
    const idBytes = diskBytes(join(directory, 'ids'))
    filled.push({
      size,
      eventsPerSecond: added / seconds,
      logBytes: diskBytes(join(directory, 'events')) / size,
      idBytes: idBytes === 0 ? undefined : idBytes / size,
    })
    stored = size
    from = directory
  }
  await syncDisks()
  return filled
}

/** @param {import('./open-contender.js').Context} context @param {string} directory @param {number} count */
async function fillStore(context, directory, count) {
  const program = await startProgram('servers/preload.js', { directory, projectId })
  const before = performance.now()
  let added = 0
  while (added < count) {
    const step = Math.min(eventsPerStep, count - added)
    const total = await program.call('append', { events: step })
    added += step
    context.log(`filled to ${formatSize(total)} events`)
  }
  const seconds = (performance.now() - before) / 1000
  await program.stop()
  return { seconds, added }
}

/**
 * @param {import('./open-contender.js').Context} context
 * @param {import('./contenders.js').Contender} peer
 * @param {number[]} sizes
 * @param {Growth['skipped']} skipped
 */
async function fillPeer(context, peer, sizes, skipped) {
  const { preloadMax = 0 } = peer
  const event = JSON.parse(makeBatch(projectId, 1).body.toString()).events[0]
  for (const size of sizes.filter((each) => each > 0)) {
    if (size > preloadMax) {
      skipped.push({ size, contender: peer.name, reason: `filling it beyond ${formatSize(preloadMax)} takes too long` })
      continue
    }
    const opened = await openContender(context, peer, { store: storeOf(size), isFresh: true, isKept: true })
    await opened.program.call('preload', { events: size, event })
    await opened.close()
    context.log(`${peer.title}: filled to ${formatSize(size)} events`)
  }
}

/**
 * @param {import('./open-contender.js').Context} context
 * @param {import('./contenders.js').Contender} contender
 * @param {number} size
 * @param {import('./plan.js').Plan} plan
 * @returns {Promise<GrowthRun>}
 */
async function measureSize(context, contender, size, { seconds, warmupSeconds }) {
  const isFresh = size === 0
  const opened = await openContender(context, contender, { store: storeOf(size), isFresh, isKept: !isFresh })
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
