import type { BuildStatus, Ingest, ProjectStats } from '@ingest/core'
import { Command } from 'commander'
import { formatBytes } from './format-bytes.ts'
import { formatTable } from './format-table.ts'
import { projectOption, withIngest } from './options.ts'
import { addTargetOptions, type Target, targetOf, withTarget } from './with-target.ts'
import { writeOut } from './write-out.ts'

interface StatsOptions {
  builds?: true
  json?: true
}

/** `ingest stats`. */
export function statsCommand(): Command {
  const command = addTargetOptions(
    new Command('stats').description('count what is stored: of one project, or of all projects of a store'),
    { project: projectOption().makeOptionMandatory(false) },
  )
  return command
    .option('--builds', 'list the builds of one project instead, and since when each is frozen')
    .option('--json', 'one JSON object a line')
    .addHelpText('after', statsHelp)
    .action(async ({ builds, json }: StatsOptions) => {
      const target: StatsTarget = targetOf(command)
      if (target.project === undefined && (builds || target.url !== undefined)) {
        command.error("required option '--project <id>' not specified")
      }
      const lines = await withProjects(target, async (ingest, projectIds) => {
        if (builds) {
          const all = await allBuilds(ingest, projectIds[0] as string)
          return json ? all.map(buildJson) : buildsTable(all)
        }
        const all: [projectId: string, ProjectStats][] = []
        for (const projectId of projectIds) all.push([projectId, await ingest.stats(projectId)])
        return json ? all.map(statsJson) : statsTable(all)
      })
      if (lines.length > 0) await writeOut(`${lines.join('\n')}\n`)
    })
}

/** Without a project, all of them are meant. */
type StatsTarget = Omit<Target, 'project'> & Partial<Pick<Target, 'project'>>

const statsHelp = `
With --data and without --project, all projects of the store are counted.
EVENTS/S is over the last minute. BYTES are those of batches as they are kept, without maps.
`

/** Reaches the project that is meant, or all of a store. */
function withProjects<T>(target: StatsTarget, use: (ingest: Ingest, projectIds: string[]) => Promise<T>): Promise<T> {
  const { data = '', project } = target
  if (project === undefined) return withIngest({ data }, async (ingest) => use(ingest, await ingest.projects()))
  if (target.url !== undefined) return withTarget({ ...target, project }, (ingest) => use(ingest, [project]))
  return withIngest({ data, project }, async (ingest) => {
    if (!(await ingest.projects()).includes(project)) {
      process.stderr.write(`ingest: nothing is known of the project ${project} here: it has no events and no keys\n`)
    }
    return use(ingest, [project])
  })
}

async function allBuilds(ingest: Ingest, project: string): Promise<BuildStatus[]> {
  const all: BuildStatus[] = []
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await ingest.builds(project, { ...(cursor && { cursor }), limit: 1000 })
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
    timeOf(firstAt) ?? 'never',
    timeOf(lastAt) ?? 'never',
  ])
  return formatTable([heading, ...rows], [1, 2, 3, 4, 5, 6])
}

function buildsTable(builds: readonly BuildStatus[]): string[] {
  const rows = builds.map(({ buildId, frozenAt, maps }) => [buildId, timeOf(frozenAt) ?? 'open', count(maps)])
  return formatTable([['BUILD', 'FROZEN SINCE', 'MAPS'], ...rows], [2])
}

// times are those of the answers over HTTP

function statsJson([projectId, stats]: [string, ProjectStats]): string {
  return JSON.stringify({ projectId, ...stats, firstAt: timeOf(stats.firstAt), lastAt: timeOf(stats.lastAt) })
}

function buildJson(build: BuildStatus): string {
  return JSON.stringify({ ...build, frozenAt: timeOf(build.frozenAt) })
}

function timeOf(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString()
}

/** A number for people: `12,345.67`. */
function count(number: number): string {
  return number.toLocaleString('en-US', { maximumFractionDigits: 2 })
}
