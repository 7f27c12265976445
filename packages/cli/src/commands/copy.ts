import { type CopiedProject, type CopyProgress, copyStores } from '@ingest/core'
import { hasProject } from '@ingest/core/internal'
import { Command, Option } from 'commander'
import { requireKnown } from '../connect.ts'
import { CommandFailure, exitCode, toFailure } from '../exit-code.ts'
import { type Io, type PrintOptions, printResult } from '../io.ts'
import { jsonOption, parseTimeOption, projectOption, quietOption } from '../options.ts'
import { checkStoreOption, describeStore, isDatabase, openStore, parseStoreName } from '../store.ts'
import { formatCount, formatNumber, formatSeconds, formatTable, startTimer } from '../terminal/format.ts'
import { abortOnSignal } from '../terminal/on-signal.ts'
import { type Progress, withProgress } from '../terminal/progress.ts'

interface CopyCommandOptions extends PrintOptions {
  from: string
  to: string
  project?: string
  latest?: string
}

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
    .option('--latest <time>', 'copy later times of receipt as this one, such as 2026-11-20T17:51:00Z')
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
Copies events with their bytes, order and times of receipt, erased ids, frozen builds, complete maps, and keys. What the
target has is not copied again; its other events stay. Not copied: unfinished uploads, positions of consumers, activity.
Cursors of one store are not valid in the other.
--latest is for a store whose clock was ahead: name the time when it was set right, the same one in each run.
The source may be in use: what it stores after the beginning is left to another run. Stop its servers before the last
run. No server may use the target before that.
Exit code 3: an unknown project, or the target has another event under an id of the source, a newer map, a key of its own,
or later events than a directory can put these before.

Examples:
  ingest copy --from data/games --to postgres://ingest@localhost/games
  ingest copy --from postgres://ingest@localhost/games --to data/copy --project demo
`

async function copy(io: Io, options: CopyCommandOptions): Promise<void> {
  const elapsed = startTimer()
  const advice = 'the copy is incomplete; run it again to continue'
  const projects = await abortOnSignal(io, advice, (signal) => copyBetween(io, options, signal)).catch((error) => {
    const failure = toFailure(error)
    if (failure.exitCode !== exitCode.temporary) throw error
    throw new CommandFailure({ ...failure, message: `${failure.message} Run it again to continue.` })
  })
  const [from, to] = [describeStore(options.from), describeStore(options.to)]
  const durationMs = elapsed()
  await printResult(io, options, { from, to, projects, durationMs }, formatResult(projects, durationMs))
}

async function copyBetween(io: Io, options: CopyCommandOptions, signal: AbortSignal): Promise<CopiedProject[]> {
  const { from, to, project, latest, quiet } = options
  const latestAt = latest === undefined ? undefined : parseTimeOption('--latest', latest)
  const source = await openStore(io, from, {})
  try {
    if (project !== undefined) requireKnown(await hasProject(source, project), project)
    const target = await openStore(io, to, { create: true })
    return await withProgress(io, quiet, (show) =>
      copyStores(source, target, {
        ...(project !== undefined && { projectIds: [project] }),
        hasOneOrder: !isDatabase(to),
        ...(latestAt !== undefined && { latestAt }),
        onProgress: (copied) => show(toProgress(copied)),
        signal,
      }),
    ).finally(target.close)
  } finally {
    await source.close()
  }
}

function toProgress({ done, total }: CopyProgress): Progress {
  return { label: 'copying', done, total, text: `${done} of ${formatCount(total, 'event')}`, isAnnounced: true }
}

function formatResult(projects: readonly CopiedProject[], durationMs: number): string[] {
  const rows = projects.map(({ projectId, ...counts }) => [
    projectId,
    ...[counts.events, counts.copied, counts.maps, counts.keys].map(formatNumber),
  ])
  const copied = projects.reduce((sum, each) => sum + each.copied, 0)
  const what = `${formatCount(copied, 'event')} of ${formatCount(projects.length, 'project')}`
  return [
    ...formatTable([['PROJECT', 'EVENTS', 'COPIED', 'MAPS', 'KEYS'], ...rows], [1, 2, 3, 4]),
    `copied ${what} in ${formatSeconds(durationMs)}`,
  ]
}
