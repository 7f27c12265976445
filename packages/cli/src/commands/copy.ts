import { type CopiedProject, type CopyProgress, copyStores } from '@ingest/core'
import { hasProject } from '@ingest/core/internal'
import { Command, Option } from 'commander'
import { projectNotFound } from '../connect.ts'
import { CommandFailure, exitCode, toFailure } from '../exit-code.ts'
import type { Io } from '../io.ts'
import { writeJson, writeStdout } from '../io.ts'
import { jsonOption, projectOption, quietOption } from '../options.ts'
import { checkStoreOption, describeStore, isDatabase, openStore, parseStoreName } from '../store.ts'
import { formatBytes, formatCount, formatTable } from '../terminal/format.ts'
import { abortOnSignal } from '../terminal/on-signal.ts'
import { createProgressDisplay, type Progress } from '../terminal/progress.ts'

interface CopyCommandOptions {
  from: string
  to: string
  project?: string
  json?: true
  quiet?: true
}

/** `ingest copy`. */
export function copyCommand(io: Io): Command {
  return new Command('copy')
    .description('copy one project, or all of them, from one store to another; a repeated run continues')
    .addOption(
      new Option('--from <store>', 'the store to copy: a directory, or postgres://user@host/database')
        .env('INGEST_FROM')
        .argParser(parseStoreName)
        .makeOptionMandatory(),
    )
    .addOption(
      new Option('--to <store>', 'the store to copy to, which is created when it is missing')
        .env('INGEST_TO')
        .argParser(parseStoreName)
        .makeOptionMandatory(),
    )
    .addOption(projectOption().makeOptionMandatory(false))
    .addOption(jsonOption())
    .addOption(quietOption())
    .addHelpText('after', copyHelp)
    .action(async (options: CopyCommandOptions, command: Command) => {
      for (const name of ['from', 'to']) checkStoreOption(command, name)
      if (options.from === options.to) command.error('--from and --to name the same store')
      await copy(io, options)
    })
}

const copyHelp = `
Copies events with their bytes, order and times of receipt, frozen builds, maps and unfinished uploads, and keys. Then
compares both stores: DIGEST is the SHA-256 of the exported lines without cursors. Cursors of one store are not valid in
the other.
The source may be in use: what it stores after the beginning is left to another run. Stop its servers before the last
run. No server may use the target before that.
Exit code 3: an unknown project, or the target has events, maps or keys that the source does not have. Exit code 5: both
differ after the copy.

Examples:
  ingest copy --from data/games --to postgres://ingest@localhost/games
  ingest copy --from postgres://ingest@localhost/games --to data/copy --project demo
`

async function copy(io: Io, options: CopyCommandOptions): Promise<void> {
  const { from, to, json, quiet } = options
  const startedAt = performance.now()
  const advice = 'the copy is incomplete; run it again to continue'
  const projects = await abortOnSignal(io, advice, (signal) => copyBetween(io, options, signal)).catch(
    async (error) => {
      const failure = await toFailure(error)
      if (failure.code === 'interrupted' || failure.exitCode !== exitCode.temporary) throw error
      throw new CommandFailure({ ...failure, message: `${failure.message} Run it again to continue.` })
    },
  )
  const durationMs = Math.round(performance.now() - startedAt)
  if (json) await writeJson(io, { ok: true, from: describeStore(from), to: describeStore(to), projects, durationMs })
  else if (!quiet) await writeStdout(io, formatResult(projects, durationMs))
}

async function copyBetween(io: Io, options: CopyCommandOptions, signal: AbortSignal): Promise<CopiedProject[]> {
  const { from, to, project, quiet } = options
  const source = await openStore(io, from, {})
  try {
    if (project !== undefined && !(await hasProject(source, project))) throw projectNotFound(project)
    const target = await openStore(io, to, { create: true })
    const progress = quiet ? undefined : await createProgressDisplay(io.stderr)
    try {
      return await copyStores(source, target, {
        ...(project !== undefined && { projectIds: [project] }),
        hasOneOrder: !isDatabase(to),
        onProgress: (copied) => progress?.show(toProgress(copied)),
        signal,
      })
    } finally {
      progress?.end()
      await target.close()
    }
  } finally {
    await source.close()
  }
}

function toProgress({ step, done, total }: CopyProgress): Progress {
  const text =
    step === 'maps'
      ? `${formatBytes(done)} of ${formatBytes(total)} verified`
      : `${done} of ${formatCount(total, 'event')}`
  return { label: step, done, total, text, isAnnounced: step === 'copying' || step === 'verifying' }
}

function formatResult(projects: readonly CopiedProject[], durationMs: number): string {
  const heading = ['PROJECT', 'EVENTS', 'COPIED', 'BUILDS FROZEN', 'MAPS', 'MAP BYTES', 'KEYS', 'DIGEST']
  const rows = projects.map(({ projectId, events, copied, builds, maps, mapBytes, keys, digest }) => [
    projectId,
    ...[events, copied, builds, maps].map((number) => number.toLocaleString('en-US')),
    formatBytes(mapBytes),
    String(keys),
    digest,
  ])
  const copied = projects.reduce((sum, each) => sum + each.copied, 0)
  const summary = `copied ${formatCount(copied, 'event')} of ${formatCount(projects.length, 'project')}, and verified all, in ${(durationMs / 1000).toFixed(2)} s`
  return `${[...formatTable([heading, ...rows], [1, 2, 3, 4, 5, 6]), summary].join('\n')}\n`
}
