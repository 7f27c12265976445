import { installPeers } from './install-peers.js'
import { describeMachine, versionOf } from './machine.js'
import { measureIds } from './measure-ids.js'
import { writeIdsReport } from './write-report.js'

/**
 * The id index alone, with a report of its own.
 *
 * @param {import('./bench-all.js').Surroundings} surroundings
 * @param {{ ids: number, secondsMax: number }} size
 */
export async function benchIds({ command, out, directory, log, print }, { ids, secondsMax }) {
  const measuredAt = new Date().toISOString()
  const reason = installPeers(log)
  if (reason !== undefined) throw new Error(reason)
  const machine = describeMachine(directory)
  const versions = ['lmdb', 'classic-level'].map((name) => {
    return { label: name, value: versionOf(`../peers/node_modules/${name}/package.json`) }
  })
  const series = await measureIds({ directory, ids, secondsMax, log })
  const record = { measuredAt, command, ids, secondsMax, machine, versions, series }
  const path = await writeIdsReport(out, record)
  print(`the report is ${path}`)
}
