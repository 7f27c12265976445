import type { EmbeddedIngest } from '@ingest/core'
import { Command } from 'commander'
import { dataOption, projectOption, wholeNumber, withIngest } from './options.ts'
import { writeOut } from './write-out.ts'

interface ExportOptions {
  data: string
  project: string
  after?: string
  limit?: number
}

/** Lines are written together, up to about so many bytes. */
const chunkBytes = 64 * 1024

/** `ingest export`. */
export function exportCommand(): Command {
  return new Command('export')
    .description(
      'print the stored events of a project, oldest first, as NDJSON: { "cursor", "receivedAt", "event" } a line',
    )
    .addOption(dataOption())
    .addOption(projectOption())
    .option('--after <cursor>', 'start behind the event with this cursor')
    .option('--limit <n>', 'print at most n events', wholeNumber(0, Number.MAX_SAFE_INTEGER))
    .action(async ({ data, project, after, limit }: ExportOptions) => {
      const { eventLine } = await import('@ingest/core')
      await withIngest({ data, project }, async (ingest) => {
        const events = ingest.readEvents(project, {
          ...(after !== undefined && { after }),
          ...(limit !== undefined && { limit }),
        })
        const output = openOutput()
        for await (const event of events) if (!(await output.write(eventLine(event)))) return
        await output.flush()
        if (await isUnknown(ingest, project)) {
          process.stderr.write(
            `ingest: nothing is known of the project ${project} here: it has no events and no keys\n`,
          )
        }
      })
    })
}

/** A project that has neither is most likely a slip of the pen, and its empty export would look like a good one. */
async function isUnknown(ingest: EmbeddedIngest, project: string): Promise<boolean> {
  for await (const _ of ingest.readEvents(project, { limit: 1 })) return false
  return (await ingest.keys.list(project)).length === 0
}

/** Puts lines together into larger writes; `write` answers false once nobody reads them any more. */
function openOutput() {
  let lines: Buffer[] = []
  let bytes = 0

  function flush(): Promise<boolean> {
    const chunk = Buffer.concat(lines)
    lines = []
    bytes = 0
    return writeOut(chunk)
  }

  return {
    flush,
    async write(line: Buffer): Promise<boolean> {
      lines.push(line)
      bytes += line.length
      return bytes < chunkBytes || flush()
    },
  }
}
