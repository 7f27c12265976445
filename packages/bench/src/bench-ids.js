import { describeMachine, versionOf } from './machine.js'
import { measureIds } from './measure-ids.js'
import { writeIdsReport } from './write-report.js'

/**
 * One store that grows, in memory and in less, with a report of its own.
 *
 * @param {import('./bench-all.js').Surroundings} surroundings
 * @param {{ sizes: readonly number[], seconds: number }} plan how many ids, and how long each load takes
 */
export async function benchIds({ command, out, directory, log, print }, { sizes, seconds }) {
  const measuredAt = new Date().toISOString()
  const machine = describeMachine(directory)
  const versions = [{ label: 'lmdb', value: versionOf('../../lmdb/node_modules/lmdb/package.json') }]
  const measured = await measureIds({ directory, sizes, seconds, log })
  const path = await writeIdsReport(out, { measuredAt, command, machine, versions, seconds, sizes: measured })
  print(`the report is ${path}`)
}
