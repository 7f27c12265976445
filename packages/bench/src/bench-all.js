import { join } from 'node:path'
import { findContenders } from './contenders.js'
import { installPeers } from './install-peers.js'
import { describeMachine, versionOf } from './machine.js'
import { isComplete } from './plan.js'
import { runBenchmark } from './run-benchmark.js'
import { startProgram } from './start-program.js'
import { latest, writeReport } from './write-report.js'

/**
 * Where a benchmark works and writes.
 *
 * @typedef {object} Surroundings
 * @property {string} command as it was typed
 * @property {string} out where the report goes
 * @property {string} directory for stores; the caller removes it
 * @property {(line: string) => void} log what is being done
 * @property {(line: string) => void} print what has come out
 */

/** @typedef {import('./contenders.js').Contender} Contender */

/**
 * Ingest, its floors and its peers, with a report of all of it.
 *
 * @param {Surroundings} surroundings
 * @param {import('./plan.js').Plan} plan
 */
export async function benchAll({ command, out, directory, log, print }, plan) {
  const measuredAt = new Date().toISOString()
  const wanted = findContenders().filter(({ name }) => plan.only === undefined || plan.only.includes(name))
  const installable = wanted.some(isPeerHere) ? leaveOutPeers(wanted, installPeers(log)) : wanted
  const { postgres, contenders } = await startPostgres(installable, join(directory, 'postgres'))
  for (const { title, missing } of contenders) if (missing !== undefined) log(`${title} is left out: ${missing}`)
  try {
    const machine = describeMachine(directory)
    const measurable = contenders.filter(({ missing }) => missing === undefined)
    const context = { directory, contenders: measurable, postgres, log }
    const results = await runBenchmark(context, plan)
    const versions = describeVersions(contenders, postgres)
    const record = { measuredAt, command, plan, machine, versions, contenders, results }
    const path = await writeReport(out, nameOf(plan), record)
    print(`the report is ${path}`)
  } finally {
    await postgres?.stop()
  }
}

/** Only a complete run replaces the latest one. @param {import('./plan.js').Plan} plan */
function nameOf(plan) {
  if (isComplete(plan)) return latest
  return plan.name === 'full' ? 'part' : plan.name
}

/** @param {Contender} contender */
function isPeerHere({ isPeer, missing }) {
  return isPeer === true && missing === undefined
}

/** @param {Contender[]} contenders @param {string | undefined} reason */
export function leaveOutPeers(contenders, reason) {
  if (reason === undefined) return contenders
  return contenders.map((each) => (isPeerHere(each) ? { ...each, missing: reason } : each))
}

/** @param {Contender[]} contenders @param {string} directory */
export async function startPostgres(contenders, directory) {
  const needsIt = (/** @type {Contender} */ { hasDatabase, missing }) => hasDatabase && missing === undefined
  if (!contenders.some(needsIt)) return { contenders }
  try {
    const url = process.env.POSTGRES_URL
    return { contenders, postgres: await startProgram('servers/postgres-server.js', { directory, url }) }
  } catch (error) {
    const [missing = ''] = String(error instanceof Error ? error.message : error).split('\n', 1)
    return { contenders: contenders.map((each) => (needsIt(each) ? { ...each, missing } : each)) }
  }
}

/** @param {Contender[]} contenders @param {import('./start-program.js').Program} [postgres] */
export function describeVersions(contenders, postgres) {
  const versions = [{ label: 'lmdb of Ingest', value: versionOf('../../lmdb/node_modules/lmdb/package.json') }]
  if (contenders.some(isPeerHere)) {
    for (const name of ['fastify', 'pg', 'lmdb']) {
      versions.push({ label: `${name} of the peers`, value: versionOf(`../peers/node_modules/${name}/package.json`) })
    }
  }
  if (postgres) {
    const { version, settings } = postgres.started
    versions.push({ label: 'PostgreSQL', value: `${version}, ${settings}` })
  }
  return versions
}
