import type { BuildStatus, Ingest, ProjectStats } from '@ingest/core'
import { BuildPage, Stats, toWire } from '@ingest/core/wire'
import { Command } from 'commander'
import { addTargetOptions, connect, parseTarget, requireProject, type Target, withIngest } from '../connect.ts'
import type { Io } from '../io.ts'
import { writeJson, writeStdout } from '../io.ts'
import { jsonOption, projectOption } from '../options.ts'
import { formatBytes, formatTable, toIsoTime } from '../terminal/format.ts'

interface StatsOptions {
  builds?: true
  json?: true
}

/** `ingest stats`. */
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
    .action(async ({ builds, json }: StatsOptions) => {
      const target: StatsTarget = parseTarget(command)
      if (target.project === undefined && (builds || target.url !== undefined)) {
        command.error('name the project: --project <id>')
      }
      if (builds) {
        const all = await withProjects(io, target, async ([ingest]) => (ingest ? listAllBuilds(ingest) : []))
        if (json)
          await writeJson(io, {
            ok: true,
            projectId: target.project,
            builds: toWire(BuildPage, { builds: all, next: null }).builds,
          })
        else await writeStdout(io, `${formatBuildsTable(all).join('\n')}\n`)
        return
      }
      const all = await withProjects(io, target, async (ingests) => {
        const all: [projectId: string, ProjectStats][] = []
        for (const ingest of ingests) all.push([ingest.projectId, await ingest.getStats()])
        return all
      })
      if (json) await writeJson(io, { ok: true, projects: all.map(toStatsJson) })
      else await writeStdout(io, `${formatStatsTable(all).join('\n')}\n`)
    })
}

/** Without a project, all projects of the store. */
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
    return withIngest(io, { store }, async (ingest) => use((await ingest.listProjects()).map(ingest.project)))
  }
  return connect(io, { ...target, project }, async (ingest, embedded) => {
    await requireProject(embedded, project)
    return use([ingest])
  })
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
  const heading = ['PROJECT', 'EVENTS', 'BATCHES', 'BYTES', 'EVENTS/S', 'BUILDS FROZEN', 'MAPS', 'FIRST', 'LAST']
  const rows = all.map(([projectId, { events, batches, bytes, eventsPerSecond, firstAt, lastAt, ...rest }]) => [
    projectId,
    formatNumber(events),
    formatNumber(batches),
    formatBytes(bytes),
    formatNumber(eventsPerSecond),
    `${formatNumber(rest.frozenBuilds)} of ${formatNumber(rest.builds)}`,
    formatNumber(rest.maps),
    toIsoTime(firstAt) ?? 'never',
    toIsoTime(lastAt) ?? 'never',
  ])
  return formatTable([heading, ...rows], [1, 2, 3, 4, 5, 6])
}

function formatBuildsTable(builds: readonly BuildStatus[]): string[] {
  const rows = builds.map(({ buildId, frozenAt, maps }) => [buildId, toIsoTime(frozenAt) ?? 'open', formatNumber(maps)])
  return formatTable([['BUILD', 'FROZEN SINCE', 'MAPS'], ...rows], [2])
}

function toStatsJson([projectId, stats]: [string, ProjectStats]): object {
  return { projectId, ...toWire(Stats, stats) }
}

/** `12,345.67`. */
function formatNumber(number: number): string {
  return number.toLocaleString('en-US', { maximumFractionDigits: 2 })
}
