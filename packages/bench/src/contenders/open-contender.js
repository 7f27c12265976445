import { execFile } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { usualLoad } from '../plan.js'
import { projectId } from './find-contenders.js'
import { readProcessorTime, totalOf } from './processor-time.js'
import { startProgram } from './start-program.js'

/**
 * @typedef {import('./find-contenders.js').Contender} Contender
 * @typedef {import('./start-program.js').Program} Program
 * @typedef {Partial<Omit<import('../load/send-load.js').LoadOptions, 'port' | 'projectId' | 'headers' | 'watched'>>} Load
 * @typedef {import('../load/send-load.js').LoadResult} LoadResult
 */

/**
 * @typedef {object} Context
 * @property {string} directory of the stores
 * @property {Contender[]} contenders that can be measured here
 * @property {Program | undefined} [postgres] for contenders that have a database
 * @property {(line: string) => void} log
 */

/** A contender that runs and takes load. @typedef {Awaited<ReturnType<typeof openContender>>} Opened */

/**
 * Starts a contender on the store of this name, which is created if it is missing.
 *
 * @param {Context} context
 * @param {Contender} contender
 * @param {{ store: string, isFresh?: boolean, isKept?: boolean }} options `isFresh` empties the store before;
 *   without `isKept` it is removed afterwards
 */
export async function openContender(context, contender, { store, isFresh = false, isKept = false }) {
  const directory = join(context.directory, `${contender.name}-${store}`)
  if (isFresh) await rm(directory, { recursive: true, force: true })
  const postgres = contender.hasDatabase ? context.postgres : undefined
  const database = `bench_${contender.name}_${store}`.replaceAll('-', '_')
  const url = await postgres?.call('database', { name: database, isFresh })
  const options = { projectId, directory, url, isFresh, ...contender.options }
  const program = await startProgram(new URL(`../../${contender.file}`, import.meta.url), options)
  // the disk must have finished earlier writes
  await postgres?.call('settle')
  await syncDisks()
  const { port, headers, database: ownDatabase } = program.started
  const sender = await startProgram(new URL('../load/load-process.js', import.meta.url), { port, headers })
  const watched = { pid: program.pid, helpers: program.helpers, database: ownDatabase ?? postgres?.started.pid }
  return {
    contender,
    program,
    watched,
    directory,
    /** The name of its database, if it has one. */
    database,
    /**
     * Sends the usual load, with the given changes.
     *
     * @param {Load & { seconds: number }} load @returns {Promise<LoadResult>}
     */
    send: (load) => sender.call('send', { ...usualLoad, ...load, projectId, port, headers, watched }),
    async close() {
      await sender.kill()
      // only a store that is kept needs a graceful shutdown
      if (isKept) return program.stop()
      await program.kill()
      await postgres?.call('drop', { name: database })
      await rm(directory, { recursive: true, force: true })
    },
  }
}

/** Opens Ingest on an empty directory. @param {Context} context @param {string} store */
export function openOurs(context, store) {
  const ours = context.contenders.find(({ name }) => name === 'ours')
  if (!ours) throw new Error('this is measured of Ingest over HTTP')
  return openContender(context, ours, { store, isFresh: true })
}

/** Syncs all disks. On a system without the command, the figures vary a little more. */
export async function syncDisks() {
  await promisify(execFile)('sync').catch(() => {})
}

/** Enough that a due batch hardly ever waits for a connection. */
const openLoopConnections = 64

/**
 * An open loop at half the rate that a closed loop reaches on the store.
 *
 * @param {Opened} opened
 * @param {import('../plan.js').Plan} plan
 * @param {number} openSeconds of the open loop
 */
export async function loadAtHalfRate({ send }, { seconds, warmupSeconds }, openSeconds) {
  const { eventsPerSecond } = await send({ seconds, warmupSeconds })
  const batchesPerSecond = eventsPerSecond / usualLoad.count / 2
  const load = { connections: openLoopConnections, seconds: openSeconds, warmupSeconds, batchesPerSecond }
  return { eventsPerSecond, load }
}

const [restPollMs, restMsMax] = [100, 5000]

/** Waits until a contender has finished its background work. @param {Opened} opened */
export async function waitForRest({ watched }) {
  const used = () => totalOf(readProcessorTime(watched)) ?? 0
  for (const latest = performance.now() + restMsMax; performance.now() < latest; ) {
    const before = used()
    await sleep(restPollMs)
    // at most one tick of the clock
    if (used() - before <= 10) return
  }
}
