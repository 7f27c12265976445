import { join } from 'node:path'
import { projectId } from './contenders.js'
import { diskBytes, freeDiskBytes } from './disk-bytes.js'
import { formatSize } from './measure-growth.js'
import { dropCaches, makeMemoryCgroup, readDiskReads } from './memory-cgroup.js'
import { syncDisks } from './open-contender.js'
import { ownBytes } from './process-memory.js'
import { processorTimePerEvent, readProcessorTime, totalOf } from './processor-time.js'
import { startProgram } from './start-program.js'

/** @typedef {import('./start-program.js').Program} Program */

/**
 * New ids for some seconds.
 *
 * @typedef {object} Load
 * @property {number} openMs before it
 * @property {number} idsPerSecond
 * @property {number} p99Ms of a batch, of which 64 are under way
 * @property {number | undefined} cpuMicroseconds an id
 * @property {number} bytesPerBatch read from the disk
 * @property {number} faultsPerBatch
 * @property {number | undefined} ownBytes memory of its own, after the load
 */

/**
 * What a store of one size does.
 *
 * @typedef {object} Size
 * @property {number} ids that it holds before the loads
 * @property {number} idsPerSecond while it was filled to this size
 * @property {number} logBytes on disk
 * @property {number} indexBytes on disk
 * @property {Load} killed after `kill -9`
 * @property {number} limitBytes
 * @property {Load} [limited] with cold caches and `limitBytes` of memory, files included
 * @property {string} [skipped] why `limited` is missing
 */

const idsPerStep = 5e6
const idsPerBatch = 100
/** For its log and its index while that is merged, and for the loads. */
const diskBytesPerId = 130
/** Beside what the process has for itself: this and an eighth of the index. */
const limitBytesMin = 32 * 2 ** 20

/**
 * Fills one store with new random ids, in the smallest events, and measures it at each size: as it is, and in less
 * memory than its index takes.
 *
 * @param {{ directory: string, sizes: readonly number[], seconds: number, log: (line: string) => void }} options
 * @returns {Promise<Size[]>} without the sizes that the disk has no space for
 */
export async function measureIds({ directory, sizes, seconds, log }) {
  const store = join(directory, 'ids')
  /** @type {Size[]} */
  const measured = []
  for (const ids of [...sizes].sort((x, y) => x - y)) {
    if (ids * diskBytesPerId > freeDiskBytes(directory) + diskBytes(store)) {
      log(`${formatSize(ids)} IDS ARE LEFT OUT: the disk is too small`)
      break
    }
    const filled = await fill(store, ids, log)
    await syncDisks()
    const logBytes = diskBytes(join(store, 'events'))
    const indexBytes = diskBytes(join(store, 'ids'))
    const killed = await measureLoad(store, seconds)
    const limitBytes = Math.round((killed.ownBytes ?? 0) + limitBytesMin + indexBytes / 8)
    const limited = await measureLimited(store, seconds, limitBytes)
    measured.push({ ...filled, logBytes, indexBytes, killed, limitBytes, ...limited })
    log(JSON.stringify(measured.at(-1)))
  }
  return measured
}

/**
 * Fills the store until it holds so many ids, then kills its process.
 *
 * @param {string} directory @param {number} wanted @param {(line: string) => void} log
 * @returns {Promise<{ ids: number, idsPerSecond: number }>}
 */
async function fill(directory, wanted, log) {
  const program = await startProgram('servers/preload.js', { directory, projectId, isSmall: true })
  const storedBefore = program.started.events
  let ids = storedBefore
  const before = performance.now()
  while (ids < wanted) {
    ids = await program.call('append', { events: Math.min(idsPerStep, wanted - ids) })
    log(`filled to ${formatSize(ids)} ids`)
  }
  const seconds = (performance.now() - before) / 1000
  await program.kill()
  return { ids, idsPerSecond: ids === storedBefore ? Number.NaN : (ids - storedBefore) / seconds }
}

/** @param {string} directory @param {number} seconds @param {number} limitBytes */
async function measureLimited(directory, seconds, limitBytes) {
  const cgroup = makeMemoryCgroup(limitBytes)
  if (typeof cgroup === 'string') return { skipped: cgroup }
  try {
    await syncDisks()
    dropCaches(directory)
    return { limited: await measureLoad(directory, seconds, cgroup.add) }
  } catch (error) {
    return { skipped: String(error) }
  } finally {
    cgroup.remove()
  }
}

/** @param {string} directory @param {number} seconds @param {(pid: number) => void} [prepare] @returns {Promise<Load>} */
async function measureLoad(directory, seconds, prepare) {
  const program = await startProgram('servers/preload.js', { directory, projectId, isSmall: true }, prepare)
  // until the caches hold what they can
  await program.call('append', { seconds })
  const before = snapshot(program)
  await program.call('append', { seconds })
  const after = snapshot(program)
  const { p99Ms, events } = await program.call('last')
  const load = {
    openMs: program.started.openMs,
    idsPerSecond: (events * 1000) / (after.at - before.at),
    p99Ms,
    cpuMicroseconds: totalOf(processorTimePerEvent(before.processor, after.processor, events)),
    bytesPerBatch: ((after.bytes - before.bytes) * idsPerBatch) / events,
    faultsPerBatch: ((after.faults - before.faults) * idsPerBatch) / events,
    ownBytes: ownBytes(program.pid),
  }
  await program.kill()
  return load
}

/** @param {Program} program */
function snapshot(program) {
  return { at: performance.now(), processor: readProcessorTime(program), ...readDiskReads(program.pid) }
}
