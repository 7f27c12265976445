import type { JobOptions, JobProgress } from '@ingest/lmdb'
import { Command } from 'commander'
import type { Io } from '../io.ts'
import { writeJson, writeStdout } from '../io.ts'
import { jsonOption, parsePath, quietOption } from '../options.ts'
import { isDatabase, parseStore, storeOption } from '../store.ts'
import { formatBytes, formatCount } from '../terminal/format.ts'
import { abortOnSignal } from '../terminal/on-signal.ts'
import { createProgressDisplay, type Progress } from '../terminal/progress.ts'

/** `ingest backup`. */
export function backupCommand(io: Io): Command {
  const command: Command = new Command('backup')
    .description('copy the directory of a store to an empty one, while servers run')
    .argument('<dir>', 'directory of the backup, which must be empty or missing', parsePath)
    .addOption(storeOption().makeOptionMandatory())
  return command
    .addOption(jsonOption())
    .addOption(quietOption())
    .addHelpText('after', backupHelp)
    .action(async (target: string, { json, quiet }: { json?: true; quiet?: true }) => {
      const store = parseDirectoryOnly(command, 'backed up')
      const startedAt = performance.now()
      const { backUpLmdbStore } = await import('@ingest/lmdb')
      const report = await runJob(io, 'there is no backup', quiet, (options) => backUpLmdbStore(store, target, options))
      const durationMs = Math.round(performance.now() - startedAt)
      const { records, events, maps, chunks, fileBytes } = report
      if (json) {
        await writeJson(io, { ok: true, store, backup: target, records, events, maps, chunks, fileBytes, durationMs })
      } else if (!quiet) {
        const what = `${formatCount(events, 'event')} and ${formatCount(maps, 'map')} (${formatBytes(fileBytes)})`
        await writeStdout(io, `backed up ${what} in ${target}, verified, in ${(durationMs / 1000).toFixed(2)} s\n`)
      }
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
 * The directory that a command works on.
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

/** Runs a job with its progress on standard error; a signal stops it. */
export async function runJob<T>(
  io: Io,
  advice: string,
  quiet: true | undefined,
  run: (options: JobOptions) => Promise<T>,
): Promise<T> {
  const display = quiet ? undefined : await createProgressDisplay(io.stderr)
  try {
    const onProgress = (progress: JobProgress) => display?.show(toProgress(progress))
    return await abortOnSignal(io, advice, (signal) => run({ signal, onProgress }))
  } finally {
    display?.end()
  }
}

function toProgress(progress: JobProgress): Progress {
  const { phase, done, total = null } = progress
  if (phase === 'copy') return { label: 'copying', done, total, text: formatBytes(done), isAnnounced: false }
  const units = { log: 'record', index: 'id', pages: 'page' }
  const read = phase === 'maps' ? formatBytes(done) : formatCount(done, units[phase])
  const of = total === null ? '' : ` of ${total}`
  return { label: 'verifying', done, total, text: `${phase}: ${read}${of}`, isAnnounced: false }
}
