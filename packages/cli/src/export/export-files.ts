import type { FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import type { CallOptions } from '@ingest/client'
import { eventLine, type Ingest, IngestError, type ReadEventsOptions, type StoredEvent } from '@ingest/core'
import { filterOf, writeAll } from '@ingest/core/internal'
import type { ExportedFile, FileContent } from './cursor-file.ts'
import { type CutRules, cutEvents } from './cut-events.ts'
import { encodeNdjson } from './encode-ndjson.ts'
import { cursorFileName, openExportDirectory } from './export-directory.ts'

/** An Ingest, embedded or over HTTP. */
export interface EventSource {
  readEvents(options?: ReadEventsOptions & CallOptions): ReturnType<Ingest['readEvents']>
}

export interface ExportFilesOptions extends CutRules {
  project: string
  /** Selects the events. `after` applies to the first run; later runs start at the cursor file. */
  selection: ReadEventsOptions
  /** Directory of the files. */
  output: string
  /** Default: `.ingest-export.json` in `output`. */
  cursorFile?: string
  format: 'ndjson' | 'parquet'
  gzip: boolean
  signal: AbortSignal
  /** Called for each completed file. */
  onFile?: (file: ExportedFile) => Promise<unknown>
}

export interface FilesExport {
  files: ExportedFile[]
  /** Start of the next run; undefined while nothing is exported. */
  cursor: string | undefined
}

type EventWithLine = StoredEvent & { line: Buffer }

/**
 * Exports all events that no earlier run has exported, each to exactly one file; see {@link openExportDirectory}. Memory
 * use does not depend on the number of events.
 *
 * If reading fails, the current file is completed with the events before the error, and then this rejects. If the signal
 * is aborted, the current file is removed.
 *
 * @throws {IngestError} the codes of reading and writing, `invalid-cursor` for the cursor file of another store; or the
 *   reason of the signal.
 */
export async function exportFiles(source: EventSource, options: ExportFilesOptions): Promise<FilesExport> {
  const { project, selection, output, cursorFile = join(output, cursorFileName), signal } = options
  const directory = await openExportDirectory({ directory: output, cursorFile, project, ...filterOf(selection) })
  const files: ExportedFile[] = []

  async function report(file: ExportedFile): Promise<void> {
    files.push(file)
    await options.onFile?.(file)
  }

  try {
    if (directory.completed) await report(directory.completed)
    const after = directory.last?.cursor ?? selection.after
    const events = source.readEvents({ ...selection, ...(after !== undefined && { after }), signal })
    for await (const part of cutEvents(withLines(events), options)) {
      signal.throwIfAborted()
      const name = { receivedAt: part.first.receivedAt, extension: fileExtension(options) }
      await report(await directory.add(name, (file) => writeEvents(part.events, file, options)))
    }
    return { files, cursor: directory.last?.cursor }
  } catch (error) {
    signal.throwIfAborted()
    if (directory.last && isInvalidCursor(error)) throw explainInvalidCursor(error, cursorFile)
    throw error
  } finally {
    await directory.close()
  }
}

/** Compares the code, because the client may load another copy of the class. */
function isInvalidCursor(error: unknown): error is IngestError {
  return (error as IngestError).code === 'invalid-cursor'
}

function explainInvalidCursor(cause: IngestError, cursorFile: string): IngestError {
  return new IngestError(
    'invalid-cursor',
    `${cursorFile} does not match the store: ${cause.message} Keep the files, and check --store, --url and --project. After restoring a backup, export to another directory: with --after and the cursor that \`ingest restore\` printed, or from the beginning.`,
    { cause },
  )
}

async function* withLines(events: AsyncIterable<StoredEvent>): AsyncGenerator<EventWithLine, void> {
  for await (const event of events) yield { ...event, line: eventLine(event) }
}

function fileExtension({ format, gzip }: ExportFilesOptions): string {
  // Parquet files are compressed inside
  return format === 'ndjson' && gzip ? 'ndjson.gz' : format
}

async function writeEvents(
  events: AsyncIterable<EventWithLine>,
  file: FileHandle,
  { format, gzip, signal }: ExportFilesOptions,
): Promise<FileContent> {
  const content: FileContent = { events: 0, cursor: '', firstReceivedAt: 0, lastReceivedAt: 0 }

  async function* counted(): AsyncGenerator<EventWithLine, void> {
    for await (const event of events) {
      if (content.events === 0) content.firstReceivedAt = event.receivedAt
      content.events++
      content.cursor = event.cursor
      content.lastReceivedAt = event.receivedAt
      yield event
    }
  }

  async function writeChunks(chunks: AsyncIterable<Uint8Array>): Promise<void> {
    for await (const chunk of chunks) await writeAll(file, chunk)
  }

  if (format === 'parquet') {
    const { encodeParquet } = await import('./encode-parquet.ts')
    await pipeline(encodeParquet(counted(), { gzip }), writeChunks, { signal })
  } else if (gzip) {
    await pipeline(encodeNdjson(counted()), createGzip(), writeChunks, { signal })
  } else {
    await pipeline(encodeNdjson(counted()), writeChunks, { signal })
  }
  return content
}
