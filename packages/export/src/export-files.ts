import type { FileHandle } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { IngestError, type ReadEventsOptions, type StoredEvent } from '@ingest/core'
import { filterOf, writeAll } from '@ingest/core/internal'
import type { ExportedFile, FileContent } from './cursor-file.ts'
import { cutEvents, type Period, periodsMs } from './cut-events.ts'
import { cursorFileName, openExportDirectory } from './export-directory.ts'
import type { FileFormat } from './file-format.ts'
import { hivePartition } from './hive-partition.ts'
import { ndjson } from './ndjson.ts'

/** The Ingest of one project, embedded or over HTTP. */
export interface EventSource {
  readonly projectId: string
  readEvents(options?: ReadEventsOptions): AsyncIterable<StoredEvent>
}

/**
 * Options of an export. They also select the events. `after` is the start of the first run; later runs start at the
 * cursor file. The filters, `from`, `format` and `partition` must be the same in each run; `to` may be later.
 */
export interface ExportFilesOptions extends Omit<ReadEventsOptions, 'waitMs' | 'onProgress'> {
  /** Directory of the files; created if it is missing. */
  directory: string
  /** Stores where the next run starts. Default: `.ingest-export.json` in the directory. */
  cursorFile?: string
  /** Default: `ndjson()`. `parquet()` is in `@ingest/export/parquet`. */
  format?: FileFormat
  /** A file for each hour or day in UTC; the current one is left for later runs. */
  every?: Period
  /**
   * `hive` writes each file to the folder of the hour in which its events were received, in UTC, such as
   * `dt=2026-11-20/hour=17`, by which query engines skip files. Default: all files in the directory itself.
   */
  partition?: 'hive'
  /** Maximum size of a file, in bytes of uncompressed NDJSON; a larger event is a file of its own. Default: 256 MiB. */
  fileBytesMax?: number
  /** Called for each completed file; writing continues when the promise resolves. */
  onFile?: (file: ExportedFile) => void | Promise<void>
  /** The clock, in milliseconds since 1970. Default: `Date.now`. */
  now?: () => number
}

/** The files that one run has completed, and where the next run starts. */
export interface ExportFilesResult {
  files: ExportedFile[]
  /** Start of the next run; undefined if no event was ever exported. */
  cursor: string | undefined
}

const fileBytesMaxDefault = 256 * 2 ** 20

/**
 * Exports all events that no earlier run has exported, each to exactly one file, even if the process is killed or the
 * machine loses power. A file appears in the directory when it is complete, and never changes. Memory use does not
 * depend on the number of events.
 *
 * If reading fails, the current file is completed with the events before the error, and then this rejects. If the
 * signal is aborted, the current file is removed.
 *
 * @throws {IngestError} `invalid-argument`, also while another export uses the directory or the cursor file, and for
 *   the cursor file of another export; `invalid-cursor` for the cursor file of another store; `disk-full`; the codes of
 *   reading; or the reason of the signal
 */
export async function exportFiles(ingest: EventSource, options: ExportFilesOptions): Promise<ExportFilesResult> {
  const {
    directory: given,
    cursorFile: givenCursor = join(given, cursorFileName),
    format = ndjson(),
    ...rest
  } = options
  // absolute, in case the process changes its working directory
  const [path, cursorFile] = [resolve(given), resolve(givenCursor)]
  const { every, partition, fileBytesMax = fileBytesMaxDefault, onFile, now = Date.now, ...selection } = rest
  checkCutOptions({ every, partition, fileBytesMax })
  const { signal = new AbortController().signal } = selection
  const project = ingest.projectId
  const directory = await openExportDirectory({
    directory: path,
    cursorFile,
    project,
    ...filterOf(selection),
    ...(selection.from !== undefined && { from: selection.from }),
    format: format.name,
    ...(partition && { partition }),
  })
  const files: ExportedFile[] = []

  async function report(file: ExportedFile): Promise<void> {
    files.push(file)
    await onFile?.(file)
  }

  try {
    if (directory.completed) await report(directory.completed)
    const after = directory.last?.cursor ?? selection.after
    const events = ingest.readEvents({ ...selection, ...(after !== undefined && { after }), signal })
    const hourly = partition === 'hive'
    const rules = { bytesMax: fileBytesMax, bytesOf: lineBytes, hourly, now: now(), ...(every && { every }) }
    for await (const part of cutEvents(events, rules)) {
      signal.throwIfAborted()
      const { receivedAt } = part.first
      const name = { receivedAt, extension: format.extension, ...(hourly && { folder: hivePartition(receivedAt) }) }
      await report(await directory.add(name, (file) => writeEvents(part.events, file, { format, signal })))
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

/** @throws {IngestError} `invalid-argument` */
function checkCutOptions({ every, partition, fileBytesMax }: Record<string, unknown>): void {
  if (every !== undefined && !Object.hasOwn(periodsMs, every as string)) {
    throw new IngestError('invalid-argument', 'every must be hour or day.')
  }
  if (partition !== undefined && partition !== 'hive') {
    throw new IngestError('invalid-argument', 'partition must be hive.')
  }
  if (!Number.isSafeInteger(fileBytesMax) || (fileBytesMax as number) < 1) {
    throw new IngestError('invalid-argument', 'fileBytesMax must be a whole number of bytes, at least 1.')
  }
}

const lineTokens = '{"cursor":"","receivedAt":,"event":}\n'.length

/** The length of the event's `eventLine`, in bytes. */
export function lineBytes({ cursor, receivedAt, bytes }: StoredEvent): number {
  return lineTokens + cursor.length + String(receivedAt).length + bytes.length
}

/** Compares codes, not classes: a client may load another copy of the class. */
function isInvalidCursor(error: unknown): error is IngestError {
  return (error as IngestError).code === 'invalid-cursor'
}

function explainInvalidCursor(cause: IngestError, cursorFile: string): IngestError {
  return new IngestError(
    'invalid-cursor',
    `${cursorFile} does not match the store: ${cause.message} Keep the files, and check the store, the server and the project. After restoring a backup, export to another directory: after the cursor that \`ingest restore\` printed, or from the beginning.`,
    { cause },
  )
}

async function writeEvents(
  events: AsyncIterable<StoredEvent>,
  file: FileHandle,
  { format, signal }: { format: FileFormat; signal: AbortSignal },
): Promise<FileContent> {
  const content: FileContent = { events: 0, cursor: '', firstReceivedAt: 0, lastReceivedAt: 0 }

  async function* counted(): AsyncGenerator<StoredEvent, void> {
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

  function onMistyped(column: string): void {
    content.mistyped ??= {}
    const count = Object.hasOwn(content.mistyped, column) ? content.mistyped[column] : 0
    content.mistyped[column] = (count ?? 0) + 1
  }

  await pipeline(format.encode(counted(), onMistyped), writeChunks, { signal })
  return content
}
