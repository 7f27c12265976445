import type { BuildStatus, Ingest, ProjectStats } from '@ingest/core'
import { BuildPage, Stats, toWire } from '@ingest/core/wire'
import { Command } from 'commander'
import { addTargetOptions, connectToKnown, parseTarget, type Target, withIngest } from '../connect.ts'
import { type Io, type PrintOptions, printResult } from '../io.ts'
import { jsonOption, projectOption } from '../options.ts'
import { formatBytes, formatNumber, formatTable, toIsoTime } from '../terminal/format.ts'

export function statsCommand(io: Io): Command {
  const project = projectOption().makeOptionMandatory(false)
  const command = addTargetOptions(
    new Command('stats').description('print statistics of one project, or of all projects of a store'),
    { project },
  )
  return command
    .option('--builds', 'list the builds of a project instead, with the time at which each was frozen')
    .addOption(jsonOption())
    .addHelpText('after', statsHelp)
    .action(async (options: PrintOptions & { builds?: true }) => {
      const { builds } = options
      const target: StatsTarget = parseTarget(command)
      if (target.project === undefined && (builds || target.url !== undefined)) {
        command.error('name the project: --project <id>')
      }
      if (builds) {
        const all = await withProjects(io, target, async ([ingest]) => (ingest ? listAllBuilds(ingest) : []))
        const result = { projectId: target.project, builds: toWire(BuildPage, { builds: all, next: null }).builds }
        return printResult(io, options, result, formatBuildsTable(all))
      }
      const all = await withProjects(io, target, async (ingests) => {
        const all: [projectId: string, ProjectStats][] = []
        for (const ingest of ingests) all.push([ingest.projectId, await ingest.getStats()])
        return all
      })
      const projects = all.map(([projectId, stats]) => ({ projectId, ...toWire(Stats, stats) }))
      await printResult(io, options, { projects }, formatStatsTable(all))
    })
}

/** If `project` is undefined, all projects of the store. */
type StatsTarget = Omit<Target, 'project'> & Partial<Pick<Target, 'project'>>

const statsHelp = `
With --store and without --project, all projects of the store are printed.
EVENTS/S is the average of the last minute. BYTES is the stored size of all batches, without maps.

Examples:
  ingest stats --store data/games
  ingest stats --store data/games --project demo --builds
`

/** Opens the project of the target, or all projects of its store. */
function withProjects<T>(io: Io, target: StatsTarget, use: (ingests: Ingest[]) => Promise<T>): Promise<T> {
  const { store = '', project } = target
  if (project === undefined) {
    return withIngest(io, { store }, async (ingest) =>
      use((await ingest.listProjects()).map((projectId) => ingest.project(projectId))),
    )
  }
  return connectToKnown(io, { ...target, project }, (ingest) => use([ingest]))
}

async function listAllBuilds(ingest: Ingest): Promise<BuildStatus[]> {
  const all: BuildStatus[] = []
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await ingest.listBuilds({ ...(cursor && { cursor }), limit: 1000 })
    all.push(...page.builds)
    cursor = page.next
  }
  return all
}

function formatStatsTable(all: readonly [string, ProjectStats][]): string[] {
  const heading = ['PROJECT', 'EVENTS', 'BATCHES', 'BYTES', 'EVENTS/S', 'FIRST', 'LAST']
  const rows = all.map(([projectId, { events, batches, bytes, eventsPerSecond, firstAt, lastAt }]) => [
    projectId,
    formatNumber(events),
    formatNumber(batches),
    formatBytes(bytes),
    formatNumber(eventsPerSecond),
    toIsoTime(firstAt) ?? 'never',
    toIsoTime(lastAt) ?? 'never',
  ])
  return formatTable([heading, ...rows], [1, 2, 3, 4])
}

function formatBuildsTable(builds: readonly BuildStatus[]): string[] {
  const rows = builds.map(({ buildId, frozenAt, maps }) => [buildId, toIsoTime(frozenAt) ?? 'open', formatNumber(maps)])
  return formatTable([['BUILD', 'FROZEN SINCE', 'MAPS'], ...rows], [2])
}
