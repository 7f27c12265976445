import type { StoreReport } from '@ingest/lmdb'
import { Command } from 'commander'
import { CommandFailure, exitCode } from '../exit-code.ts'
import { type Io, type PrintOptions, printResult } from '../io.ts'
import { jsonOption, quietOption } from '../options.ts'
import { storeOption } from '../store.ts'
import { escapeControlCharacters, formatBytes, formatCount, formatSeconds, startTimer } from '../terminal/format.ts'
import { parseDirectoryOnly, runJob } from './backup.ts'

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
      const { problems, problemCount } = report
      // a failure prints its own object
      if (problemCount === 0 || !json) {
        await printResult(io, { json, quiet: problemCount === 0 ? quiet : undefined }, details, formatReport(details))
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
Reads checksums of events, the order of the log, totals, frozen builds and the digests of maps, and looks up each id in the
id index, with a low priority and beside running servers. Nothing is changed.
Exit code 5: something is damaged. \`ingest repair\` copies what can be read.

Example:
  ingest verify --store data/games
`

function formatReport({ problems, problemCount, ...report }: StoreReport & { durationMs: number }): string[] {
  const lines = problems.map(({ message, projectId }) => {
    return escapeControlCharacters(projectId === undefined ? message : `${projectId}: ${message}`)
  })
  if (problemCount > problems.length) lines.push(`and ${problemCount - problems.length} more`)
  const { records, events, bytes, maps, chunkBytes, indexedIds, durationMs } = report
  const log = `${formatCount(events, 'event')} in ${formatCount(records, 'record')} (${formatBytes(bytes)})`
  const index = indexedIds === null ? 'no id index' : 'the id index'
  const found = `${log}, ${index}, ${formatCount(maps, 'map')} (${formatBytes(chunkBytes)})`
  const result = problemCount === 0 ? 'no problems' : formatCount(problemCount, 'problem')
  return [...lines, `verified ${found} in ${formatSeconds(durationMs)}: ${result}`]
}
