import { join } from 'node:path'
import { describeVersions, leaveOutPeers, startPostgres } from './bench-all.js'
import { findContenders, findVariants } from './contenders.js'
import { installPeers } from './install-peers.js'
import { describeMachine } from './machine.js'
import { measurePostgres } from './measure-postgres.js'
import { latestPostgres, writePostgresReport } from './write-report.js'

const measured = ['ours', 'ours-postgres', 'postgres']

/**
 * Ingest on PostgreSQL beside plain inserts into the same server, with a report of its own.
 *
 * @param {import('./bench-all.js').Surroundings} surroundings
 * @param {import('./measure-postgres.js').PostgresPlan} plan
 */
export async function benchPostgres({ command, out, directory, log, print }, plan) {
  const measuredAt = new Date().toISOString()
  const wanted = [...findContenders().filter(({ name }) => measured.includes(name)), ...findVariants()].filter(
    ({ name }) => plan.only === undefined || plan.only.includes(name),
  )
  const installable = leaveOutPeers(wanted, wanted.some(({ isPeer }) => isPeer) ? installPeers(log) : undefined)
  const { postgres, contenders } = await startPostgres(installable, join(directory, 'postgres'))
  for (const { title, missing } of contenders) if (missing !== undefined) log(`${title} is left out: ${missing}`)
  if (!postgres) throw new Error(contenders.find(({ missing }) => missing)?.missing ?? 'no contender has a database')
  try {
    const measurable = contenders.filter(({ missing }) => missing === undefined)
    const results = await measurePostgres({ directory, contenders: measurable, postgres, log }, plan)
    const machine = describeMachine(directory)
    const versions = describeVersions(contenders, postgres)
    const record = { measuredAt, command, plan, machine, versions, contenders, results }
    const path = await writePostgresReport(out, nameOf(plan), record)
    print(`the report is ${path}`)
  } finally {
    await postgres.stop()
  }
}

/** Only a full run with all contenders replaces the latest one. @param {import('./measure-postgres.js').PostgresPlan} plan */
function nameOf({ name, only }) {
  if (name === 'full' && only === undefined) return latestPostgres
  return `${name === 'full' ? 'part' : name}-${latestPostgres}`
}
