import type { FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import type { CallOptions } from '@ingest/client'
import { eventLine, type Ingest, IngestError, type ReadEventsOptions, type StoredEvent } from '@ingest/core'
import { writeAll } from '../files/write-file.ts'
import { type CutRules, cutEvents } from './cut-events.ts'
import { encodeNdjson } from './encode-ndjson.ts'
import { cursorFileName, type ExportedFile, type FileContent, openExportDirectory } from './export-directory.ts'

/** What an export reads from: an Ingest, here or over HTTP. */
export interface EventSource {
  readEvents(options?: ReadEventsOptions & CallOptions): ReturnType<Ingest['readEvents']>
}

export interface ExportFilesOptions extends CutRules {
  project: string
  /** Which events. `after` is where the first run begins; later ones begin where the cursor file says. */
  selection: ReadEventsOptions
  /** The directory that the files go to. */
  output: string
  cursorFile?: string
  format: 'ndjson' | 'parquet'
  gzip: boolean
  signal: AbortSignal
  /** Told of each file once it is done with. */
  onFile?: (file: ExportedFile) => Promise<unknown>
}

export interface FilesExport {
  files: ExportedFile[]
  /** Where the next run begins; undefined as long as nothing was exported. */
  cursor: string | undefined
}

/** An event with the line that it makes. */
type Line = StoredEvent & { line: Buffer }

/**
 * Exports the events that no earlier run has exported into files, each event into exactly one; see
 * {@link openExportDirectory}. Memory does not grow with them.
 *
 * When reading fails, the file that is being written ends with the last good event, and is done with, before this
 * rejects. When the signal is aborted, it is removed.
 *
 * @throws {IngestError} what reading and writing refuse with, `invalid-cursor` for a cursor file that does not fit the
 *   store; the reason of the signal.
 */
export async function exportFiles(source: EventSource, options: ExportFilesOptions): Promise<FilesExport> {
  const { project, selection, output, cursorFile = join(output, cursorFileName), signal } = options
  const directory = await openExportDirectory({
    directory: output,
    cursorFile,
    project,
    type: selection.type,
    buildId: selection.buildId,
  })
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

/** By code, because a client may have its own copy of the class. */
function isInvalidCursor(error: unknown): error is IngestError {
  return (error as IngestError).code === 'invalid-cursor'
}

function explainInvalidCursor(cause: IngestError, cursorFile: string): IngestError {
  return new IngestError(
    'invalid-cursor',
    `${cursorFile} does not fit the store: ${cause.message} Keep the files, look at --data, --url and --project, and if a backup was restored, export into another directory: with --after and the cursor that \`ingest restore\` printed, or from the beginning.`,
    { cause },
  )
}

async function* withLines(events: AsyncIterable<StoredEvent>): AsyncGenerator<Line, void> {
  for await (const event of events) yield { ...event, line: eventLine(event) }
}

function fileExtension({ format, gzip }: ExportFilesOptions): string {
  // what is compressed inside a Parquet file is its own affair
  return format === 'ndjson' && gzip ? 'ndjson.gz' : format
}

async function writeEvents(events: AsyncIterable<Line>, file: FileHandle, options: ExportFilesOptions): Promise<FileContent> {
  const { format, gzip, signal } = options
  const count: FileContent = { events: 0, cursor: '', firstReceivedAt: 0, lastReceivedAt: 0 }

  async function* counted(): AsyncGenerator<Line, void> {
    for await (const event of events) {
      if (count.events === 0) count.firstReceivedAt = event.receivedAt
      count.events++
      count.cursor = event.cursor
      count.lastReceivedAt = event.receivedAt
      yield event
    }
  }

  async function take(pieces: AsyncIterable<Uint8Array>): Promise<void> {
    for await (const piece of pieces) await writeAll(file, piece)
  }

  if (format === 'parquet') {
    const { encodeParquet } = await import('./encode-parquet.ts')
    await pipeline(encodeParquet(counted(), { gzip }), take, { signal })
  } else if (gzip) {
    await pipeline(encodeNdjson(counted()), createGzip(), take, { signal })
  } else {
    await pipeline(encodeNdjson(counted()), take, { signal })
  }
  return count
}
