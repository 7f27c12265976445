import type { RejectionGroup, Rejections } from '@ingest/core'
import * as wire from '@ingest/core/wire'
import { Command } from 'commander'
import { addTargetOptions, connectToKnown, parseTarget } from '../connect.ts'
import { type Io, printResult } from '../io.ts'
import { jsonOption, parseTimeOption } from '../options.ts'
import { formatCount, formatTable, toIsoTime } from '../terminal/format.ts'

/** Maximum number of characters of a text in a row. */
const textShownMax = 80

const serversShownMax = 3

export function rejectedCommand(io: Io): Command {
  const command = addTargetOptions(
    new Command('rejected').description('print the rejected events of a project by cause'),
  )
  return command
    .option('--since <time>', 'count events received since: 10m, 14d, or a time; by default in the last hour')
    .addOption(jsonOption())
    .addHelpText('after', rejectedHelp)
    .action(async ({ since, json }: { since?: string; json?: true }) => {
      const target = parseTarget(command)
      const range = since === undefined ? {} : { from: parseTimeOption('--since', since) }
      const listed = await connectToKnown(io, target, (ingest) => ingest.listRejected(range))
      const result = { projectId: target.project, ...wire.toWire(wire.Rejections, listed) }
      await printResult(io, { json }, result, formatRejections(listed))
    })
}

const rejectedHelp = `
Each row has the events with the same first issue, build, type and key, and of how many of them the most frequent values
of serverId are known. Servers count into the store once a minute: a server includes what it has not written yet, a store
does not. --json has samples; with the text of the events, if the server runs with --keep-rejected.

Examples:
  INGEST_KEY=… ingest rejected --url http://127.0.0.1:8787 --project demo
  ingest rejected --store data/games --project demo --since 14d --json
`

function formatRejections({ from, total, groups, other }: Rejections): string[] {
  const heading = `${formatCount(total, 'event')} rejected since ${toIsoTime(from)}`
  if (groups.length === 0) return [heading]
  const rest = other === 0 ? [] : [`and ${formatCount(other, 'event')} of other causes`]
  return [heading, '', ...formatGroups(groups), ...rest]
}

function formatGroups(groups: readonly RejectionGroup[]): string[] {
  const rows = groups.map(
    ({ count, code, path, message, type, buildId, keyId, keyName, serverIds, firstAt, lastAt }) => [
      ...[
        `${count}`,
        `${code} ${shown(path)}`,
        message,
        shown(type),
        shown(buildId),
        shown(keyName ?? keyId),
        gameServers(serverIds),
      ],
      ...[toIsoTime(firstAt), toIsoTime(lastAt)],
    ],
  )
  const heading = ['COUNT', 'ISSUE', 'MESSAGE', 'TYPE', 'BUILD', 'KEY', 'SERVER ID', 'FIRST', 'LAST']
  return formatTable([heading, ...rows], [0])
}

/** The most frequent game servers of a row, with their events. */
function gameServers(serverIds: RejectionGroup['serverIds']): string {
  if (serverIds.every(({ serverId }) => serverId === null)) return shown(null)
  return serverIds
    .slice(0, serversShownMax)
    .map(({ serverId, count }) => `${shown(serverId)} ${count}`)
    .join(', ')
}

/** Shortens a text, because a long one would widen its column. The path of the whole event is empty. */
function shown(text: string | null): string {
  if (text === null || text === '') return '-'
  return text.length > textShownMax ? `${text.slice(0, textShownMax)}…` : text
}
