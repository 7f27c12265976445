import type { RepairReport } from '@ingest/lmdb'
import { Command, Option } from 'commander'
import { type Io, type PrintOptions, printResult } from '../io.ts'
import { jsonOption, parsePath, quietOption } from '../options.ts'
import { storeOption } from '../store.ts'
import { escapeControlCharacters, formatBytes, formatCount } from '../terminal/format.ts'
import { parseDirectoryOnly, runJob } from './backup.ts'

/** `ingest repair`. */
export function repairCommand(io: Io): Command {
  return new Command('repair')
    .description('save what is intact of a damaged directory in an empty one')
    .addOption(storeOption().makeOptionMandatory())
    .addOption(
      new Option('--to <dir>', 'directory for what is saved, which must be empty or missing')
        .argParser(parsePath)
        .makeOptionMandatory(),
    )
    .addOption(jsonOption())
    .addOption(quietOption())
    .addHelpText('after', repairHelp)
    .action(async ({ to, json, quiet }: PrintOptions & { to: string }, command: Command) => {
      const store = parseDirectoryOnly(command, 'restored')
      const { repairLmdbStore } = await import('@ingest/lmdb')
      const report = await runJob(io, 'nothing is saved', quiet, (job) => repairLmdbStore(store, to, job))
      const lines = formatReport(report, to).map(escapeControlCharacters)
      await printResult(io, { json }, { store, to, ...report }, lines)
    })
}

const repairHelp = `
Stop every process on the damaged directory first; it is not changed. Prints what is lost, by the numbers of records in
the damaged log. Cursors from before are refused afterwards. A recent backup may be the better choice.

Example:
  ingest repair --store data/games --to data/games.repaired
`

function formatReport({ lost, clampedRecords, mayHaveErased, ...saved }: RepairReport, to: string): string[] {
  const lines = lost.records.map(({ from, to, projectId }) => {
    const which = from === to ? `record ${from}` : `records ${from} to ${to}`
    return `lost: ${which}${projectId === undefined ? '' : ` of ${projectId}`}`
  })
  const listed = lost.records.reduce((sum, { from, to }) => sum + to - from + 1, 0)
  if (lost.recordCount > listed) lines.push(`lost: ${formatCount(lost.recordCount - listed, 'further record')}`)
  if (lost.bytes > 0) lines.push(`lost: the last ${formatBytes(lost.bytes)} of the file of the log, which is truncated`)
  if (lost.until !== undefined) {
    lines.push(`lost: what was received up to ${new Date(lost.until).toISOString()}: a build froze then`)
  }
  for (const { projectId, events } of lost.events) lines.push(`lost: ${formatCount(events, 'event')} of ${projectId}`)
  for (const { projectId = 'an unknown project', placeId, buildId } of lost.maps) {
    lines.push(`lost: the map of place ${placeId} and build ${buildId} of ${projectId}, or a version of it`)
  }
  for (const projectId of lost.keysOf) lines.push(`lost: the keys of ${projectId}`)
  for (const table of lost.tables) lines.push(`lost: rows of the table ${table} that nothing else names`)
  const isAll = lines.length === 0 ? '; nothing is lost but consumers and activity' : ''
  if (clampedRecords > 0) {
    const which = formatCount(clampedRecords, 'record')
    lines.push(`${which} had a time before that of the previous record, and got the latter`)
  }
  if (mayHaveErased) lines.push('the list of free pages is damaged: erase again what was erased')
  const { records, events, maps, projects, fileBytes } = saved
  const what = `${formatCount(events, 'event')} in ${formatCount(records, 'record')}, ${formatCount(maps, 'map')} and ${formatCount(projects, 'project')}`
  return [...lines, `saved ${what} (${formatBytes(fileBytes)}) in ${to}, verified${isAll}`]
}
