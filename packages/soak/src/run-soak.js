import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { diskBytes, freeDiskBytes } from '@ingest/bench/disk-bytes'
import { startProgram } from '@ingest/bench/start-program'
import { runFinalChecks } from './checks/final-checks.js'
import { runFaults } from './faults/faults.js'
import { runOpeners } from './faults/openers.js'
import { runPowerLosses } from './faults/power-losses.js'
import { runMaintenance } from './load/maintenance.js'
import { runMaps } from './load/maps.js'
import { runRechecks, runSender } from './load/senders.js'
import { createReport, formatReport } from './report.js'
import { createRun } from './site/run.js'
import { createSite } from './site/site.js'

/** @typedef {import('./site/site.js').Site} Site */

/**
 * @typedef {object} SoakOptions
 * @property {number} hours of load, without the checks at the end
 * @property {number} seed
 * @property {string} directory of the run: missing or empty
 * @property {string} [databaseUrl] of a database to use in place of a directory
 */

const sendersPerServer = 3
const openers = 3
const publishers = 2
const storeBytesMax = 2e9
/** Free space that the disk of the run must keep, for the store, its copies and the ledger. */
const freeBytesMin = 4 * storeBytesMax
/** The approximate size of an event in a database. */
const eventBytes = 250
const sizeEveryMs = 1000
const progressEveryMs = 60_000

/**
 * Runs the load, the faults and the checks, and writes `report.json` and `report.md` in the directory of the run. The
 * rest of that directory is deleted unless there is a violation.
 *
 * @param {SoakOptions} options
 * @returns {Promise<{ ok: boolean, text: string }>} `text` is the report in Markdown
 */
export async function runSoak({ hours, seed, directory, databaseUrl }) {
  const startedAt = Date.now()
  mkdirSync(join(directory, 'logs'), { recursive: true })
  const run = createRun({ seed, directory })
  const { site, skipped, ledgerPath, release } = createSite(run, { hours, databaseUrl })
  /** @type {Record<string, unknown>} */
  let compared = {}
  try {
    await createKeys(site)
    const database =
      databaseUrl && (await startProgram(new URL('faults/database-faults.js', import.meta.url), { url: databaseUrl }))
    await runLoad(site, { hours, database: database || undefined })
    if (database) await database.stop()
    compared = await compare(site)
  } catch (error) {
    run.violate('the soak itself completes', { error: error instanceof Error ? error.stack : `${error}` })
  } finally {
    site.processes.killAll()
    keepStore(site)
    release()
  }
  const configuration = {
    seed,
    hours,
    store: databaseUrl === undefined ? 'LMDB' : 'PostgreSQL',
    servers: site.servers.length,
    sendersPerServer,
  }
  const seconds = (Date.now() - startedAt) / 1000
  const report = await createReport(site, { configuration, skipped, seconds, compared, ledgerPath })
  const text = formatReport(report)
  writeFileSync(join(directory, 'report.json'), `${JSON.stringify(report, null, 2)}\n`)
  writeFileSync(join(directory, 'report.md'), `${text}\n`)
  if (report.ok) removeAllButReports(directory)
  return { ok: report.ok, text }
}

/** @param {Site} site */
async function createKeys({ processes, projects, keys }) {
  for (const projectId of Object.values(projects)) {
    const { exited } = processes.start(['keys', 'create', '--project', projectId, '--json'])
    const { code, signal, stdout, stderr } = await exited
    if (code !== 0) throw new Error(`keys create ended with ${signal ?? code}: ${stderr}`)
    keys.set(projectId, [JSON.parse(stdout).key])
  }
}

/**
 * @param {Site} site
 * @param {{ hours: number, database: import('@ingest/bench/start-program').Program | undefined }} options
 */
async function runLoad(site, { hours, database }) {
  const { run, servers } = site
  await Promise.all(servers.map((slot) => slot.start()))
  const end = setTimeout(run.stop, hours * 3_600_000)
  const lag = monitorEventLoopDelay()
  lag.enable()
  const timers = [
    setInterval(() => limitSize(site), sizeEveryMs),
    setInterval(() => printProgress(site), progressEveryMs),
  ]
  await Promise.all([
    ...servers.flatMap((slot) =>
      Array.from({ length: sendersPerServer }, (_, i) => runSender(site, slot, `sender ${slot.name} ${i}`)),
    ),
    ...Array.from({ length: openers }, (_, i) => runOpeners(site, `opener-${i}`)),
    runMaintenance(site),
    ...Array.from({ length: publishers }, (_, i) => runMaps(site, `publisher-${i}`)),
    runRechecks(site),
    runFaults(site, database),
    site.canLosePower && runPowerLosses(site),
  ])
  clearTimeout(end)
  for (const timer of timers) clearInterval(timer)
  lag.disable()
  run.keepMax('lag of the event loop of the soak, ms', Math.round(lag.max / 1e6))
}

/** Stops new events once the store is large, so that hours of load fit on the disk. @param {Site} site */
function limitSize(site) {
  if (site.isPostgres) site.isFull = site.ledger.countsOf(site.projects.plain).sent * eventBytes > storeBytesMax
  else {
    const free = freeDiskBytes(site.run.directory)
    site.isFull = diskBytes(site.store) > storeBytesMax || free < freeBytesMin
    site.run.keepMax('store, bytes', diskBytes(site.store))
  }
}

/** @param {Site} site */
function printProgress({ run, ledger, projects }) {
  const acknowledged = Object.values(projects).reduce((sum, id) => sum + ledger.countsOf(id).acknowledged, 0)
  console.error(`${acknowledged} events acknowledged, ${JSON.stringify(run.counts.faults ?? {})}`)
}

/** @param {Site} site */
async function compare(site) {
  const { run, servers } = site
  await Promise.all(servers.map((slot) => slot.stop(run.violations.length > 0 ? 'SIGKILL' : 'SIGTERM')))
  keepStore(site)
  await Promise.all(servers.map((slot) => slot.start()))
  const compared = await runFinalChecks(site)
  await Promise.all(servers.map((slot) => slot.stop('SIGTERM')))
  return compared
}

/** Copies the store after the first violation. @param {Site} site */
function keepStore({ run, store, isPostgres }) {
  const kept = join(run.directory, 'store-at-violation')
  if (run.violations.length === 0 || isPostgres || existsSync(kept)) return
  cpSync(store, kept, { recursive: true })
}

/** @param {string} directory */
function removeAllButReports(directory) {
  for (const name of readdirSync(directory)) {
    if (!name.startsWith('report.')) rmSync(join(directory, name), { recursive: true, force: true })
  }
}
