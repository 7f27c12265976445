import type { StoreReport } from '@ingest/lmdb'
import { Command } from 'commander'
import { CommandFailure, exitCode } from '../exit-code.ts'
import { type Io, type PrintOptions, printResult } from '../io.ts'
import { jsonOption, quietOption } from '../options.ts'
import { storeOption } from '../store.ts'
import { escapeControlCharacters, formatBytes, formatCount, formatSeconds, startTimer } from '../terminal/format.ts'
import { parseDirectoryOnly, runJob } from './backup.ts'

/** `ingest verify`. */
export function verifyCommand(io: Io): Command {
  return new Command('verify')
    .description('verify everything in the directory of a store or of a backup')
    .addOption(storeOption().makeOptionMandatory())
    .addOption(jsonOption())
    .addOption(quietOption())
    .addHelpText('after', verifyHelp)
    .action(async ({ json, quiet }: PrintOptions, command: Command) => {
      const store = parseDirectoryOnly(command, 'verified', 'pg_amcheck')
      const elapsed = startTimer()
      const { verifyLmdbStore } = await import('@ingest/lmdb')
      const report = await runJob(io, 'the store is not verified', quiet, (job) => verifyLmdbStore(store, job))
      const details = { store, ...report, durationMs: elapsed() }
      const { problems, problemCount, warnings } = report
      const isFine = problemCount + warnings.length === 0
      // a failure prints its own object
      if (problemCount === 0 || !json) {
        await printResult(io, { json, quiet: isFine ? quiet : undefined }, details, formatReport(details))
      }
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

function formatReport({ problems, problemCount, warnings, ...report }: StoreReport & { durationMs: number }): string[] {
  const lines = problems.map(({ message, projectId }) => {
    return escapeControlCharacters(projectId === undefined ? message : `${projectId}: ${message}`)
  })
  for (const { message } of warnings) lines.push(`warning: ${escapeControlCharacters(message)}`)
  if (problemCount > problems.length) lines.push(`and ${problemCount - problems.length} more`)
  const { records, events, bytes, maps, chunkBytes, indexedIds, durationMs } = report
  const log = `${formatCount(events, 'event')} in ${formatCount(records, 'record')} (${formatBytes(bytes)})`
  const index = indexedIds === null ? 'no id index' : `${formatCount(indexedIds, 'indexed id')}`
  const found = `${log}, ${index}, ${formatCount(maps, 'map')} (${formatBytes(chunkBytes)})`
  const result = problemCount === 0 ? 'no problems' : formatCount(problemCount, 'problem')
  return [...lines, `verified ${found} in ${formatSeconds(durationMs)}: ${result}`]
}
