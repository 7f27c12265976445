import type { JobOptions, JobProgress } from '@ingest/lmdb'
import { Command } from 'commander'
import { type Io, type PrintOptions, printResult } from '../io.ts'
import { jsonOption, parsePath, quietOption } from '../options.ts'
import { isDatabase, parseStore, storeOption } from '../store.ts'
import { formatBytes, formatCount, formatSeconds, startTimer } from '../terminal/format.ts'
import { abortOnSignal } from '../terminal/on-signal.ts'
import { type Progress, withProgress } from '../terminal/progress.ts'

export function backupCommand(io: Io): Command {
  return new Command('backup')
    .description('copy the directory of a store to an empty one, while servers run')
    .argument('<dir>', 'directory of the backup, which must be empty or missing', parsePath)
    .addOption(storeOption().makeOptionMandatory())
    .addOption(jsonOption())
    .addOption(quietOption())
    .addHelpText('after', backupHelp)
    .action(async (target: string, options: PrintOptions, command: Command) => {
      const store = parseDirectoryOnly(command, 'backed up')
      const elapsed = startTimer()
      const { backUpLmdbStore } = await import('@ingest/lmdb')
      const report = await runJob(io, 'there is no backup', options.quiet, (job) => backUpLmdbStore(store, target, job))
      const { records, events, maps, chunks, fileBytes } = report
      const result = { store, backup: target, records, events, maps, chunks, fileBytes, durationMs: elapsed() }
      const what = `${formatCount(events, 'event')} and ${formatCount(maps, 'map')} (${formatBytes(fileBytes)})`
      const text = `backed up ${what} in ${target}, verified, in ${formatSeconds(result.durationMs)}`
      await printResult(io, options, result, text)
    })
}

const backupHelp = `
The backup is that of one moment. It gets its name once it is verified and durable; an interrupted one leaves
<dir>.unfinished-… only if the process was killed, which may be deleted. Restore it with \`ingest restore\`.
Exit code 5: the store is damaged, so there is no backup; \`ingest verify\` lists the damage.

Example:
  ingest backup backups/2026-11-22 --store data/games
`

/**
 * Parses the directory that a command works on.
 *
 * @throws {CommanderError} for a database
 */
export function parseDirectoryOnly(command: Command, verb: string, tools = 'pg_dump or pgBackRest'): string {
  const store = parseStore(command)
  if (isDatabase(store)) {
    command.error(
      `a database is ${verb} with the tools of PostgreSQL, such as ${tools}; after restoring one, run \`ingest migrate --new-epoch\``,
    )
  }
  return store
}

/** Runs a job, shows its progress on standard error, and stops it on a signal. */
export function runJob<T>(
  io: Io,
  advice: string,
  quiet: true | undefined,
  run: (job: JobOptions) => Promise<T>,
): Promise<T> {
  return withProgress(io, quiet, (show) =>
    abortOnSignal(io, advice, (signal) => run({ signal, onProgress: (progress) => show(toProgress(progress)) })),
  )
}

function toProgress(progress: JobProgress): Progress {
  const { phase, done, total = null } = progress
  if (phase === 'copy') return { label: 'copying', done, total, text: formatBytes(done), isAnnounced: false }
  const read = phase === 'maps' ? formatBytes(done) : formatCount(done, 'record')
  const of = total === null ? '' : ` of ${total}`
  return { label: 'verifying', done, total, text: `${phase}: ${read}${of}`, isAnnounced: false }
}
