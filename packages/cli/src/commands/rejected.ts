import type { Issue, RecentRejection, RecentRejections, RejectionGroup } from '@ingest/core'
import * as wire from '@ingest/core/wire'
import { Command, Option } from 'commander'
import { addTargetOptions, connect, parseTarget } from '../connect.ts'
import { type Io, printResult } from '../io.ts'
import { jsonOption, wholeNumber } from '../options.ts'
import { formatCount, formatTable, toIsoTime } from '../terminal/format.ts'

/** The most issues that a row shows. */
const issuesShown = 3
/** The most characters of a path that a row shows: the name of a member may be as long as a batch. */
const pathShownMax = 120

/** `ingest rejected`. */
export function rejectedCommand(io: Io): Command {
  const command = addTargetOptions(
    new Command('rejected').description('print the last rejected events of a project, by issue and one by one'),
    { serverOnly: 'rejected events are in the memory of the server' },
  )
  return command
    .addOption(new Option('--limit <n>', 'maximum number of events').default(20).argParser(wholeNumber(1, 1000)))
    .addOption(jsonOption())
    .addHelpText('after', rejectedHelp)
    .action(async ({ limit, json }: { limit: number; json?: true }) => {
      const target = parseTarget(command)
      const listed = await connect(io, target, (ingest) => ingest.listRejected({ limit }))
      const result = { projectId: target.project, ...toJson(listed) }
      await printResult(io, { json }, result, formatRejections(listed))
    })
}

const rejectedHelp = `
A server has its last 1,000 rejected events of a project in memory, 1 MiB at most, and none after a restart. With several
servers, each has its own: the one that responds prints its own. COUNT counts all in memory. The events
themselves are in --json, if the server runs with --keep-rejected.

Examples:
  INGEST_KEY=… ingest rejected --url http://127.0.0.1:8787 --project demo
  INGEST_KEY=… ingest rejected --url http://127.0.0.1:8787 --project demo --limit 1000 --json
`

function formatRejections({ since, total, groups, rejected }: RecentRejections): string[] {
  const heading = `${formatCount(total, 'event')} rejected since ${toIsoTime(since)}`
  if (rejected.length === 0) return [heading]
  return [heading, '', ...formatGroups(groups), '', ...formatEvents(rejected)]
}

function formatGroups(groups: readonly RejectionGroup[]): string[] {
  const rows = groups.map(({ count, code, path, message }) => [`${count}`, code, formatPath(path), message])
  return formatTable([['COUNT', 'CODE', 'PATH', 'MESSAGE'], ...rows], [0])
}

function formatEvents(rejected: readonly RecentRejection[]): string[] {
  const rows = rejected.map(({ receivedAt, index, eventId, issues }) => [
    toIsoTime(receivedAt),
    `${index}`,
    eventId ?? '-',
    formatIssues(issues),
  ])
  return formatTable([['RECEIVED', 'INDEX', 'EVENT', 'ISSUES'], ...rows], [1])
}

function formatIssues(issues: readonly Issue[]): string {
  const shown = issues.slice(0, issuesShown).map(({ code, path }) => `${code} ${formatPath(path)}`)
  const more = issues.length - shown.length
  return `${shown.join(', ')}${more > 0 ? `, and ${more} more` : ''}`
}

/** The path of the whole event is empty. A long one would widen every row of its column. */
function formatPath(path: string): string {
  if (path === '') return '-'
  return path.length > pathShownMax ? `${path.slice(0, pathShownMax)}…` : path
}

function toJson(recent: RecentRejections): object {
  const { rejected, ...rest } = wire.toWire(wire.RecentRejections, recent)
  return { ...rest, rejected: rejected.map((each) => ({ ...each, event: each.event ?? null })) }
}
