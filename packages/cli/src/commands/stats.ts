import type { BuildStatus, Ingest, ProjectStats } from '@ingest/core'
import { Command } from 'commander'
import { addTargetOptions, type Target, targetOf, withTarget } from '../connect.ts'
import type { Io } from '../io.ts'
import { say, writeJson, writeOut } from '../io.ts'
import { jsonOption, projectOption, withIngest } from '../options.ts'
import { missingError } from '../settings.ts'
import { formatBytes, formatTable, formatTime } from '../terminal/format.ts'

interface StatsOptions {
  builds?: true
  json?: true
}

/** `ingest stats`. */
export function statsCommand(io: Io): Command {
  const project = projectOption().makeOptionMandatory(false)
  const command = addTargetOptions(
    new Command('stats').description('count what is stored: of one project, or of all projects of a store'),
    { project },
  )
  return command
    .option('--builds', 'list the builds of one project instead, and since when each is frozen')
    .addOption(jsonOption())
    .addHelpText('after', statsHelp)
    .action(async ({ builds, json }: StatsOptions) => {
      const target: StatsTarget = targetOf(command)
      if (target.project === undefined && (builds || target.url !== undefined)) {
        throw missingError(command, [project])
      }
      if (builds) {
        const all = await withProjects(io, target, async ([ingest]) => (ingest ? allBuilds(ingest) : []))
        if (json) await writeJson(io, { ok: true, projectId: target.project, builds: all.map(buildJson) })
        else await writeOut(io, `${buildsTable(all).join('\n')}\n`)
        return
      }
      const all = await withProjects(io, target, async (ingests) => {
        const all: [projectId: string, ProjectStats][] = []
        for (const ingest of ingests) all.push([ingest.projectId, await ingest.getStats()])
        return all
      })
      if (json) await writeJson(io, { ok: true, projects: all.map(statsJson) })
      else await writeOut(io, `${statsTable(all).join('\n')}\n`)
    })
}

/** Without a project, all of them are meant. */
type StatsTarget = Omit<Target, 'project'> & Partial<Pick<Target, 'project'>>

const statsHelp = `
With --data and without --project, all projects of the store are counted.
EVENTS/S is over the last minute. BYTES are those of batches as they are kept, without maps.

Examples:
  ingest stats --data data/games
  ingest stats --data data/games --project demo --builds
`

/** Reaches the project that is meant, or all of a store. */
function withProjects<T>(io: Io, target: StatsTarget, use: (ingests: Ingest[]) => Promise<T>): Promise<T> {
  const { data = '', project } = target
  if (project === undefined) {
    return withIngest(io, { data }, async (ingest) => use((await ingest.listProjects()).map(ingest.project)))
  }
  if (target.url !== undefined) return withTarget(io, { ...target, project }, (ingest) => use([ingest]))
  return withIngest(io, { data, project }, async (ingest) => {
    if (!(await ingest.listProjects()).includes(project)) {
      say(io, `nothing is known of the project ${project} here: it has no events and no keys`)
    }
    return use([ingest.project(project)])
  })
}

async function allBuilds(ingest: Ingest): Promise<BuildStatus[]> {
  const all: BuildStatus[] = []
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await ingest.listBuilds({ ...(cursor && { cursor }), limit: 1000 })
    all.push(...page.builds)
    cursor = page.next
  }
  return all
}

function statsTable(all: readonly [string, ProjectStats][]): string[] {
  const heading = ['PROJECT', 'EVENTS', 'BATCHES', 'BYTES', 'EVENTS/S', 'BUILDS FROZEN', 'MAPS', 'FIRST', 'LAST']
  const rows = all.map(([projectId, { events, batches, bytes, eventsPerSecond, firstAt, lastAt, ...rest }]) => [
    projectId,
    count(events),
    count(batches),
    formatBytes(bytes),
    count(eventsPerSecond),
    `${count(rest.frozenBuilds)} of ${count(rest.builds)}`,
    count(rest.maps),
    formatTime(firstAt) ?? 'never',
    formatTime(lastAt) ?? 'never',
  ])
  return formatTable([heading, ...rows], [1, 2, 3, 4, 5, 6])
}

function buildsTable(builds: readonly BuildStatus[]): string[] {
  const rows = builds.map(({ buildId, frozenAt, maps }) => [buildId, formatTime(frozenAt) ?? 'open', count(maps)])
  return formatTable([['BUILD', 'FROZEN SINCE', 'MAPS'], ...rows], [2])
}

function statsJson([projectId, stats]: [string, ProjectStats]): object {
  return { projectId, ...stats, firstAt: formatTime(stats.firstAt), lastAt: formatTime(stats.lastAt) }
}

function buildJson(build: BuildStatus): object {
  return { ...build, frozenAt: formatTime(build.frozenAt) }
}

/** A number for people: `12,345.67`. */
function count(number: number): string {
  return number.toLocaleString('en-US', { maximumFractionDigits: 2 })
}
