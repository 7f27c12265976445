import type { StoreReport } from '@ingest/lmdb'
import { Command } from 'commander'
import { CommandFailure, exitCode } from '../exit-code.ts'
import type { Io } from '../io.ts'
import { writeJson, writeStdout } from '../io.ts'
import { jsonOption, quietOption } from '../options.ts'
import { storeOption } from '../store.ts'
import { escapeControlCharacters, formatBytes, formatCount } from '../terminal/format.ts'
import { parseDirectoryOnly, runJob } from './backup.ts'

/** `ingest verify`. */
export function verifyCommand(io: Io): Command {
  const command = new Command('verify').description('verify everything in the directory of a store or of a backup')
  command.addOption(storeOption().makeOptionMandatory())
  return command
    .addOption(jsonOption())
    .addOption(quietOption())
    .addHelpText('after', verifyHelp)
    .action(async ({ json, quiet }: { json?: true; quiet?: true }) => {
      const store = parseDirectoryOnly(command, 'verified', 'pg_amcheck')
      const startedAt = performance.now()
      const { verifyLmdbStore } = await import('@ingest/lmdb')
      const advice = 'the store is not verified'
      const report = await runJob(io, advice, quiet, (options) => verifyLmdbStore(store, options))
      const details = { store, ...report, durationMs: Math.round(performance.now() - startedAt) }
      const { problems, problemCount } = report
      if (json && problemCount === 0) await writeJson(io, { ok: true, ...details })
      if (!json && (!quiet || problemCount + report.warnings.length > 0))
        await writeStdout(io, formatReport(report, details.durationMs))
      if (problemCount === 0) return
      const message = `${formatCount(problemCount, 'problem')}: ${problems[0]?.message}`
      throw new CommandFailure({
        exitCode: exitCode.invalid,
        code: 'store-damaged',
        message,
        retryable: false,
        details,
      })
    })
}

const verifyHelp = `
Reads checksums of events, the order of the log, the id index, totals, frozen builds, and the digests of maps, and counts
the pages of the files, with a low priority and beside running servers. Nothing is changed.
Exit code 5: something is damaged. \`ingest repair\` saves what is left. Warnings, such as of leaked pages, do not change
the exit code.

Example:
  ingest verify --store data/games
`

function formatReport({ problems, problemCount, warnings, ...report }: StoreReport, durationMs: number): string {
  const lines = problems.map(({ message, projectId }) => {
    return escapeControlCharacters(projectId === undefined ? message : `${projectId}: ${message}`)
  })
  for (const { message } of warnings) lines.push(`warning: ${escapeControlCharacters(message)}`)
  if (problemCount > problems.length) lines.push(`and ${problemCount - problems.length} more`)
  const { records, events, bytes, maps, chunkBytes, indexedIds } = report
  const log = `${formatCount(events, 'event')} in ${formatCount(records, 'record')} (${formatBytes(bytes)})`
  const index = indexedIds === null ? 'no id index' : `${formatCount(indexedIds, 'indexed id')}`
  const found = `${log}, ${index}, ${formatCount(maps, 'map')} (${formatBytes(chunkBytes)})`
  const result = problemCount === 0 ? 'no problems' : formatCount(problemCount, 'problem')
  return `${[...lines, `verified ${found} in ${(durationMs / 1000).toFixed(2)} s: ${result}`].join('\n')}\n`
}
