import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { openLedger } from '../checks/ledger.js'
import { whyNotPreloaded } from '../faults/preload-library.js'
import { mountSmallDisk } from '../faults/small-disk.js'
import { createProcesses } from './processes.js'
import { createServerSlot } from './servers.js'

/** The store, servers and settings that the actors of a run share. @typedef {ReturnType<typeof createSite>['site']} Site */

const serverNames = ['a', 'b']
const diskBytesMax = 3e9

/**
 * Detects what the machine supports, and creates the site; starts nothing. `release` kills the remaining processes and
 * unmounts the disk; it also runs when this process exits.
 *
 * @param {import('./run.js').Run} run
 * @param {{ hours: number, databaseUrl: string | undefined }} options
 */
export function createSite(run, { hours, databaseUrl }) {
  const { directory } = run
  /** @type {string[]} */
  const skipped = []
  const disk = databaseUrl === undefined ? trySmallDisk(directory, skipped) : undefined
  const store = databaseUrl ?? join(disk?.directory ?? directory, 'store')
  const processes = createProcesses(run, store)
  const ledgerPath = join(directory, 'ledger.ndjson')
  const ledger = openLedger({ seed: run.seed, path: ledgerPath })
  if (databaseUrl !== undefined) skipped.push('backup, verify, the search for erased bytes: of a directory only')
  const suffix = Date.now().toString(36)
  /** Players of `erased` are erased, `aged` is under retention, and nothing of `plain` is erased. */
  const projects = { erased: `erased-${suffix}`, plain: `plain-${suffix}`, aged: `aged-${suffix}` }
  const olderThanMs = Math.max(10, Math.round(hours * 360)) * 1000
  const rules = ['--retain', `${projects.aged}=${olderThanMs / 1000}s`]
  const serve = { args: ['--rate-limit', 'off', '--log-level', 'warn', ...rules], note: ledger.note }
  const site = {
    run,
    ledger,
    processes,
    servers: serverNames.map((name) => createServerSlot(run, processes, { name, ...serve })),
    /** The directory or URL of the store. */
    store,
    isPostgres: databaseUrl !== undefined,
    /** Whether strace works here. */
    canSlow: hasStrace(skipped),
    /** Whether power losses are simulated. */
    canLosePower: databaseUrl === undefined && canRecord(skipped),
    disk,
    projects,
    /** Valid keys by project. @type {Map<string, string[]>} */
    keys: new Map(),
    /** The retention of the project `aged`. Events acknowledged before `isErasedBefore` are erased. */
    retention: { olderThanMs, isErasedBefore: -Infinity },
    /** Whether no new events are sent, because the store is large enough. */
    isFull: false,
    lastPlayer: 0,
    /** @type {import('../load/maps.js').MapState[]} */
    maps: [],
  }
  let isReleased = false
  function release() {
    if (isReleased) return
    isReleased = true
    processes.killAll()
    disk?.unmount()
  }
  process.once('exit', release)
  return { site, skipped, ledgerPath, release }
}

/** @param {string} directory @param {string[]} skipped */
function trySmallDisk(directory, skipped) {
  try {
    return mountSmallDisk(directory, diskBytesMax)
  } catch (error) {
    const reason = (error instanceof Error ? error.message : `${error}`).trim().split('\n').at(-1)
    skipped.push(`the full disk, which needs root and loop devices: ${reason}`)
    return undefined
  }
}

/** @param {string[]} skipped */
function hasStrace(skipped) {
  try {
    execFileSync('strace', ['-f', '-o', '/dev/null', '-e', 'inject=mmap:delay_exit=1', 'true'], { stdio: 'ignore' })
    return true
  } catch {
    skipped.push('slowed openings, which need strace')
    return false
  }
}

/** @param {string[]} skipped */
function canRecord(skipped) {
  const reason = whyNotPreloaded()
  if (reason !== undefined) skipped.push(`power losses: ${reason}`)
  return reason === undefined
}
