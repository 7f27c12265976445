import { Command } from 'commander'
import { withIngest } from '../connect.ts'
import { type Io, printResult } from '../io.ts'
import { jsonOption, parsePath } from '../options.ts'
import { storeOption } from '../store.ts'
import { formatNumber, formatTable } from '../terminal/format.ts'
import { parseDirectoryOnly, runJob } from './backup.ts'

export function restoreCommand(io: Io): Command {
  return new Command('restore')
    .description('restore the backup of a directory into an empty one; prints the last cursor of each project')
    .argument('<backup>', 'directory of the backup, which is not changed', parsePath)
    .addOption(storeOption().makeOptionMandatory())
    .addOption(jsonOption())
    .addHelpText('after', restoreHelp)
    .action(async (backup: string, { json }: { json?: true }, command: Command) => {
      const store = parseDirectoryOnly(command, 'restored')
      const { restoreLmdbStore } = await import('@ingest/lmdb')
      const advice = 'the restore is unfinished; run it again'
      await runJob(io, advice, json, (options) => restoreLmdbStore(backup, store, options))
      await withIngest(io, { store }, async (ingest) => {
        const rows: { projectId: string; events: number; cursor: string }[] = []
        for (const projectId of await ingest.listProjects()) {
          const { events } = await ingest.project(projectId).getStats()
          rows.push({ projectId, events, cursor: await ingest.project(projectId).lastCursor() })
        }
        const cells = rows.map(({ projectId, events, cursor }) => [projectId, formatNumber(events), cursor])
        await printResult(io, { json }, { projects: rows }, formatTable([['PROJECT', 'EVENTS', 'CURSOR'], ...cells]))
      })
    })
}

const restoreHelp = `
Cursors from before the restore are refused afterwards. To export later events, name another directory:
  ingest export --store <dir> --project <id> --output <new dir> --after <cursor>

Example:
  ingest restore backups/2026-11-22 --store data/games
`
