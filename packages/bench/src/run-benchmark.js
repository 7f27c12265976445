import { prepareContenders } from './contenders/find-contenders.js'
import { measureDatabases } from './parts/databases.js'
import { measureGrowth } from './parts/growth.js'
import { measureLatency } from './parts/latency.js'
import { measureBatches, measureRepeats, measureStandby } from './parts/loads.js'
import { measureSend } from './parts/send.js'
import { measureThroughput } from './parts/throughput.js'
import { measureUploads } from './parts/uploads.js'
import { describeMachine, versionOf } from './report/machine.js'

/** @typedef {import('./contenders/open-contender.js').Context} Context */
/** @typedef {import('./plan.js').Plan} Plan */
/** @typedef {import('./report/report.js').Measured} Measured */

const measures = {
  throughput: measureThroughput,
  batches: measureBatches,
  repeats: measureRepeats,
  growth: measureGrowth,
  latency: measureLatency,
  uploads: measureUploads,
  send: measureSend,
  databases: measureDatabases,
  standby: measureStandby,
}
const onlyOfOurs = ['latency', 'uploads', 'send']
/** The parts whose ratios the documents quote. */
const manyRounds = ['throughput', 'batches']

/**
 * Measures the parts of a plan, one after another.
 *
 * @param {object} surroundings
 * @param {string} surroundings.command as the user typed it
 * @param {string} surroundings.directory of the stores; the caller removes it
 * @param {(line: string) => void} surroundings.log
 * @param {Plan} plan
 * @returns {Promise<Measured>} rejects at the first wrong response
 */
export async function runBenchmark({ command, directory, log }, plan) {
  const measuredAt = new Date().toISOString()
  const { contenders, postgres } = await prepareContenders(plan.only, { directory, log })
  const measurable = contenders.filter(({ missing }) => missing === undefined)
  try {
    const results = await measureParts({ directory, contenders: measurable, postgres, log }, plan)
    const machine = describeMachine(directory)
    const versions = describeVersions(measurable, postgres)
    return { measuredAt, command, plan, machine, versions, contenders, results }
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
    const rounds = manyRounds.includes(part) ? plan.rounds : plan.fewerRounds
    const startMs = performance.now()
    Object.assign(results, { [part]: await measures[part](context, { ...plan, rounds }) })
    context.log(`${part} took ${Math.round((performance.now() - startMs) / 1000)} s`)
  }
  return results
}

/** @param {import('./contenders/find-contenders.js').Contender[]} contenders @param {import('./contenders/start-program.js').Program} [postgres] */
function describeVersions(contenders, postgres) {
  const versions = [{ label: 'lmdb of Ingest', value: versionOf('../../../lmdb/node_modules/lmdb/package.json') }]
  const ofPeers = contenders.some(({ isPeer }) => isPeer) ? ['fastify', 'pg', '@nats-io/jetstream'] : []
  for (const name of ofPeers) {
    versions.push({ label: `${name} of the peers`, value: versionOf(`../../peers/node_modules/${name}/package.json`) })
  }
  if (postgres) {
    const { version, settings } = postgres.started
    versions.push({ label: 'PostgreSQL', value: `${version}, ${settings}` })
  }
  return versions
}
