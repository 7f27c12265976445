import type { ErasedTotals } from '@ingest/core'
import { Command, Option } from 'commander'
import { requireProject, withIngest } from '../connect.ts'
import { mapProjects } from '../each-project.ts'
import type { Io } from '../io.ts'
import { writeJson, writeStdout } from '../io.ts'
import { jsonOption, parsePositiveDuration, projectOption } from '../options.ts'
import { parseStore, storeOptions } from '../store.ts'
import { formatBytes, formatTable } from '../terminal/format.ts'
import { abortOnSignal } from '../terminal/on-signal.ts'

interface RetainOptions {
  olderThan: number
  project?: string
  dryRun?: boolean
  json?: true
}

/** `ingest retain`. */
export function retainCommand(io: Io): Command {
  const command = new Command('retain').description(
    'erase events that were received before a time; their ids stay known',
  )
  for (const option of storeOptions()) command.addOption(option)
  return command
    .addOption(
      new Option('--older-than <duration>', 'age of the events to erase, such as 90d')
        .argParser(parsePositiveDuration)
        .makeOptionMandatory(),
    )
    .addOption(projectOption().makeOptionMandatory(false))
    .addOption(dryRunOption())
    .addOption(jsonOption())
    .addHelpText('after', retainHelp)
    .action(async ({ olderThan, project, dryRun = false, json }: RetainOptions) => {
      const before = Date.now() - olderThan
      let rows: (ErasedTotals & { projectId: string })[] = []
      await abortOnSignal(io, eraseAdvice, (signal) =>
        withIngest(io, { store: parseStore(command), ...(project !== undefined && { project }) }, async (ingest) => {
          if (project !== undefined) await requireProject(ingest, project)
          const projectIds = project === undefined ? await ingest.listProjects() : [project]
          rows = await mapProjects(projectIds, async (projectId) => {
            return { projectId, ...(await ingest.retainEvents(projectId, before, { dryRun, signal })) }
          })
          if (!dryRun) await ingest.purgeErased()
        }),
      )
      if (json) await writeJson(io, { ok: true, dryRun, before: new Date(before).toISOString(), projects: rows })
      else await writeStdout(io, `${formatTotals(rows, dryRun).join('\n')}\n`)
    })
}

const retainHelp = `
Servers may have the store open. Without --project, all projects are meant. \`ingest serve --retain 90d\` does the same
once an hour. Erased events cannot be restored; their ids stay known, so that a retry stores nothing.
Exit code 3: an unknown project.

Examples:
  ingest retain --older-than 90d --data data/games --dry-run
  ingest retain --older-than 90d --data data/games --project demo
`

/** What remains to be done after a signal. */
export const eraseAdvice = 'some events are erased; run it again to continue'

/** `--dry-run`. */
export function dryRunOption(): Option {
  return new Option('--dry-run', 'only count')
}

/** A row for each project. */
export function formatTotals(rows: readonly (ErasedTotals & { projectId: string })[], dryRun: boolean): string[] {
  const heading = ['PROJECT', dryRun ? 'WOULD ERASE' : 'ERASED', 'BYTES']
  const cells = rows.map(({ projectId, events, bytes }) => [
    projectId,
    events.toLocaleString('en-US'),
    formatBytes(bytes),
  ])
  return formatTable([heading, ...cells], [1, 2])
}
