import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { prepareContenders } from './contenders.js'
import { describeMachine, versionOf } from './machine.js'
import { measureDatabases } from './parts/databases.js'
import { measureGrowth } from './parts/growth.js'
import { measureLatency } from './parts/latency.js'
import { measureMixed } from './parts/mixed.js'
import { measureSend } from './parts/send.js'
import { measureThroughput } from './parts/throughput.js'
import { measureUploads } from './parts/uploads.js'
import { isComplete } from './plan.js'
import { makePlot } from './plot.js'
import { withFigures } from './readme-figures.js'
import { makeReport } from './report.js'

/** @typedef {import('./open-contender.js').Context} Context */
/** @typedef {import('./plan.js').Plan} Plan */
/** @typedef {import('./report.js').Measured} Measured */

const measures = {
  throughput: measureThroughput,
  mixed: measureMixed,
  growth: measureGrowth,
  latency: measureLatency,
  uploads: measureUploads,
  send: measureSend,
  databases: measureDatabases,
}
const onlyOfOurs = ['latency', 'uploads', 'send']

/**
 * Measures the parts of a plan, one after another, and writes their report.
 *
 * @param {object} surroundings
 * @param {string} surroundings.command as it was typed
 * @param {string} surroundings.out directory of the report
 * @param {string} surroundings.directory of the stores; the caller removes it
 * @param {(line: string) => void} surroundings.log
 * @param {Plan} plan
 * @returns {Promise<string>} the path of the report; rejects at the first wrong response
 */
export async function runBenchmark({ command, out, directory, log }, plan) {
  const measuredAt = new Date().toISOString()
  const { contenders, postgres } = await prepareContenders(plan.only, { directory, log })
  const measurable = contenders.filter(({ missing }) => missing === undefined)
  try {
    const results = await measureParts({ directory, contenders: measurable, postgres, log }, plan)
    const machine = describeMachine(directory)
    const versions = describeVersions(measurable, postgres)
    const record = { measuredAt, command, plan, machine, versions, contenders, results }
    return await writeReport(out, nameOf(plan), record)
  } finally {
    await postgres?.stop()
  }
}

/** @param {Context} context @param {Plan} plan */
async function measureParts(context, plan) {
  const hasOurs = context.contenders.some(({ name }) => name === 'ours')
  /** @type {Measured['results']} */
  const results = {}
  for (const part of plan.parts) {
    if (!hasOurs && onlyOfOurs.includes(part)) continue
    context.log(`== ${part}`)
    Object.assign(results, { [part]: await measures[part](context, plan) })
  }
  return results
}

/** @param {import('./contenders.js').Contender[]} contenders @param {import('./start-program.js').Program} [postgres] */
function describeVersions(contenders, postgres) {
  const versions = [{ label: 'lmdb of Ingest', value: versionOf('../../lmdb/node_modules/lmdb/package.json') }]
  const ofPeers = contenders.some(({ isPeer }) => isPeer) ? ['fastify', 'pg', 'lmdb'] : []
  for (const name of ofPeers) {
    versions.push({ label: `${name} of the peers`, value: versionOf(`../peers/node_modules/${name}/package.json`) })
  }
  if (postgres) {
    const { version, settings } = postgres.started
    versions.push({ label: 'PostgreSQL', value: `${version}, ${settings}` })
  }
  return versions
}

/** Only a complete run replaces a report that is quoted. @param {Plan} plan */
function nameOf(plan) {
  if (isComplete(plan)) return plan.report
  const name = plan.name === 'full' ? 'part' : plan.name
  return plan.report === 'postgres' ? `${name}-postgres` : name
}

/** @param {string} directory @param {string} name of its files @param {Measured} record @returns {Promise<string>} its path */
async function writeReport(directory, name, record) {
  const path = join(directory, `${name}.md`)
  await mkdir(directory, { recursive: true })
  await writeFile(join(directory, `${name}.json`), `${JSON.stringify(record, null, 1)}\n`)
  if (record.results.throughput) await writeFile(join(directory, `${name}.svg`), makePlot(record))
  await writeFile(path, makeReport(record, name))
  return path
}

/**
 * Writes the newest reports again from their figures, and those of the README.
 *
 * @param {string} directory of the reports
 * @param {string} readme its path
 */
export async function rewriteReports(directory, readme) {
  for (const name of ['latest', 'postgres']) {
    const record = JSON.parse(await readFile(join(directory, `${name}.json`), 'utf8'))
    await writeReport(directory, name, record)
    if (name === 'latest') await writeFile(readme, withFigures(await readFile(readme, 'utf8'), record))
  }
}
