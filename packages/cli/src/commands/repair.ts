import type { RepairReport } from '@ingest/lmdb'
import { Command, Option } from 'commander'
import { type Io, type PrintOptions, printResult } from '../io.ts'
import { jsonOption, parsePath, quietOption } from '../options.ts'
import { storeOption } from '../store.ts'
import { escapeControlCharacters, formatBytes, formatCount } from '../terminal/format.ts'
import { parseDirectoryOnly, runJob } from './backup.ts'

export function repairCommand(io: Io): Command {
  return new Command('repair')
    .description('copy what can be read of a damaged directory to an empty one')
    .addOption(storeOption().makeOptionMandatory())
    .addOption(
      new Option('--to <dir>', 'directory of the copy, which must be empty or missing')
        .argParser(parsePath)
        .makeOptionMandatory(),
    )
    .addOption(jsonOption())
    .addOption(quietOption())
    .addHelpText('after', repairHelp)
    .action(async ({ to, json, quiet }: PrintOptions & { to: string }, command: Command) => {
      const store = parseDirectoryOnly(command, 'restored')
      const { repairLmdbStore } = await import('@ingest/lmdb')
      const report = await runJob(io, 'nothing is copied', quiet, (job) => repairLmdbStore(store, to, job))
      const lines = formatReport(report, to).map(escapeControlCharacters)
      await printResult(io, { json }, { store, to, ...report }, lines)
    })
}

const repairHelp = `
Stop every process on the damaged directory first; its data files are not changed. Prints what is lost, by the numbers of
records in the damaged log. Cursors from before are refused afterwards. A recent backup may be the better choice.

Example:
  ingest repair --store data/games --to data/games.repaired
`

function formatReport({ lost, ...copied }: RepairReport, to: string): string[] {
  const lines = lost.records.map(
    ({ from, to }) => `lost: ${from === to ? `record ${from}` : `records ${from} to ${to}`}`,
  )
  const listed = lost.records.reduce((sum, { from, to }) => sum + to - from + 1, 0)
  if (lost.recordCount > listed) lines.push(`lost: ${formatCount(lost.recordCount - listed, 'further record')}`)
  for (const { projectId, events } of lost.events) lines.push(`lost: ${formatCount(events, 'event')} of ${projectId}`)
  for (const { projectId = 'an unknown project', placeId, buildId } of lost.maps) {
    lines.push(`lost: the map of place ${placeId} and build ${buildId} of ${projectId}`)
  }
  for (const projectId of lost.keysOf) lines.push(`lost: the keys of ${projectId}`)
  for (const table of lost.tables) lines.push(`damaged: the table ${table}, of which unnamed rows may be lost`)
  const isAll = lines.length === 0 ? '; nothing is lost but unfinished maps, consumers and activity' : ''
  const { records, events, maps, projects, fileBytes } = copied
  const what = `${formatCount(events, 'event')} in ${formatCount(records, 'record')}, ${formatCount(maps, 'map')} and ${formatCount(projects, 'project')}`
  return [...lines, `copied ${what} (${formatBytes(fileBytes)}) to ${to}, verified${isAll}`]
}
