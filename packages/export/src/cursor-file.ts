import { lstatSync, realpathSync } from 'node:fs'
import { open, readFile, rename, rm } from 'node:fs/promises'
import { basename, dirname, relative } from 'node:path'
import { type Cursor, type EventFilter, IngestError } from '@ingest/core'
import { filterNames, filterOf, isDangling, lockDirectory, toWriteError } from '@ingest/core/internal'
import { withoutPartition } from './hive-partition.ts'

/** Statistics of the events of a file. */
export interface FileContent {
  events: number
  /** Cursor of the last event. */
  cursor: Cursor
  /** Times of receipt of the first and the last event, in milliseconds since 1970. */
  firstReceivedAt: number
  lastReceivedAt: number
  /** The number of values, by column, that did not fit the column's type and are null. Absent if there are none. */
  mistyped?: Record<string, number>
}

/** A completed file, which never changes under its name. */
export interface ExportedFile extends FileContent {
  /** Relative to the directory of the export. */
  file: string
  /** Sequence number within the cursor file, from 1. */
  number: number
  /** File size. */
  bytes: number
}

/**
 * The export that a cursor file belongs to. All its runs select events by the same options and write the same format.
 */
export interface CursorFileOptions extends EventFilter {
  directory: string
  cursorFile: string
  project: string
  /** Time of receipt from which events are exported, in milliseconds since 1970. */
  from?: number
  /** The `name` of the format. */
  format: string
  partition?: 'hive'
}

type Selection = Omit<CursorFileOptions, 'cursorFile'>

interface CursorRecord extends Selection {
  version: 1
  last: ExportedFile
}

const notGiven = '(not given)'

/**
 * Locks the cursor file, which exports to other directories may share. Returns its path with symbolic links resolved,
 * because a rename would replace a link, and the function that unlocks it.
 *
 * @throws {IngestError} the codes of `lockDirectory`; `invalid-argument` for a link without a target
 */
export function lockCursorFile(path: string): { cursorFile: string; unlock: () => void } {
  try {
    if (isDangling(path)) {
      throw new IngestError('invalid-argument', `${path} cannot be written: it is a symbolic link to nothing`)
    }
    const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()
    const cursorFile = isLink ? realpathSync(path) : path
    return { cursorFile, unlock: lockDirectory(dirname(cursorFile), `${basename(cursorFile)}.lock`).unlock }
  } catch (error) {
    throw toWriteError(error as NodeJS.ErrnoException, path)
  }
}

/**
 * The last file that the cursor file records; undefined if there is no cursor file.
 *
 * @throws {IngestError} `invalid-argument` for any other file, or the cursor file of another export.
 */
export async function readCursorFile(options: CursorFileOptions): Promise<ExportedFile | undefined> {
  const { cursorFile } = options
  let text: string
  try {
    text = await readFile(cursorFile, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw toWriteError(error as NodeJS.ErrnoException, cursorFile)
  }
  const record = parseRecord(text)
  if (!record) throw new IngestError('invalid-argument', `${cursorFile} is not a cursor file of an export.`)
  const actual = describe(toRecord(options))
  for (const [name, expected] of Object.entries(describe(record))) {
    if (expected === actual[name]) continue
    const message = `${cursorFile} belongs to the ${name} ${expected}, and not to ${actual[name]}: use another directory and cursor file.`
    throw new IngestError('invalid-argument', message)
  }
  return record.last
}

function parseRecord(text: string): CursorRecord | undefined {
  try {
    const record = JSON.parse(text)
    const { file, number, cursor } = record.last
    const isRecord =
      record.version === 1 &&
      typeof record.format === 'string' &&
      basename(withoutPartition(file)) === withoutPartition(file) &&
      Number.isInteger(number) &&
      typeof cursor === 'string'
    return isRecord ? record : undefined
  } catch {
    return undefined
  }
}

/** Stores the directory relative to the cursor file, so that both can be moved together. */
function toRecord(options: CursorFileOptions): Selection {
  const { directory, cursorFile, project, from, format, partition } = options
  return {
    project,
    directory: relative(dirname(cursorFile), directory) || '.',
    ...filterOf(options),
    ...(from !== undefined && { from }),
    format,
    ...(partition && { partition }),
  }
}

/** The values that must be the same in all runs, with the names that errors use. */
function describe({ project, directory, from, format, partition, ...filter }: Selection): Record<string, string> {
  return {
    project,
    directory,
    ...Object.fromEntries(filterNames.map((name) => [name, filter[name] ?? notGiven])),
    'start time': from === undefined ? notGiven : new Date(from).toISOString(),
    format,
    partition: partition ?? notGiven,
  }
}

/** Replaces the cursor file atomically. The rename is not durable until its directory is synced. */
export async function writeCursorFile(options: CursorFileOptions, last: ExportedFile): Promise<void> {
  const { cursorFile } = options
  const record: CursorRecord = { version: 1, ...toRecord(options), last }
  try {
    const handle = await open(temporaryPath(cursorFile), 'w')
    try {
      await handle.writeFile(`${JSON.stringify(record)}\n`)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await rename(temporaryPath(cursorFile), cursorFile)
  } catch (error) {
    throw toWriteError(error as NodeJS.ErrnoException, cursorFile)
  }
}

/** Removes the temporary file of an interrupted {@link writeCursorFile}. */
export async function removeTemporaryCursorFile({ cursorFile }: CursorFileOptions): Promise<void> {
  await rm(temporaryPath(cursorFile), { force: true })
}

function temporaryPath(cursorFile: string): string {
  return `${cursorFile}.part`
}
