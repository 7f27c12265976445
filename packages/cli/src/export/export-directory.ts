import { createHash } from 'node:crypto'
import { access, type FileHandle, mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'
import { lockDirectory } from '@ingest/client'
import { type Cursor, IngestError } from '@ingest/core'
import { syncDirectory, toWriteError } from '../files/write-file.ts'

/** What a file holds. */
export interface FileContent {
  events: number
  /** The place of its last event. */
  cursor: Cursor
  /** When its first and its last event were received, in milliseconds since 1970. */
  firstReceivedAt: number
  lastReceivedAt: number
}

/** A file that is done with: under this name, it never changes. */
export interface ExportedFile extends FileContent {
  file: string
  /** Its place among the files of the cursor file, from 1. */
  number: number
  /** Its size. */
  bytes: number
}

/** The directory that the files of an export go to. */
export interface ExportDirectory {
  /** The last file that is done with, of this run or of an earlier one. */
  readonly last: ExportedFile | undefined
  /** The same, if the run before did not come to giving it its name. */
  readonly completed: ExportedFile | undefined
  /** Adds a file, with what `fill` writes into it: once it resolves, the file outlives a power cut. */
  add(name: NewFile, fill: (file: FileHandle) => Promise<FileContent>): Promise<ExportedFile>
  /** Removes what is not done with, and lets others have the directory. */
  close(): Promise<void>
}

export interface NewFile {
  /** When its first event was received, in milliseconds since 1970. */
  receivedAt: number
  /** Without the dot. */
  extension: string
}

export interface ExportDirectoryOptions {
  directory: string
  cursorFile: string
  project: string
  /** The type and the build of the events, where not all are exported. */
  type?: string | undefined
  buildId?: string | undefined
}

/** The cursor file of a directory, unless another is named. */
export const cursorFileName = '.ingest-export.json'
const lockName = '.ingest-export.lock'

/**
 * Opens a directory for an export, and makes it when it is missing.
 *
 * Each event gets into exactly one file, however often the process is killed, and whatever is killed with it:
 *
 * 1. A file is written under a hidden name, and synced.
 * 2. The cursor file says, from one moment to the next, that this file is the last one, what it is to be called, and up
 *    to which event all is exported.
 * 3. The file gets its name.
 *
 * Whoever comes after a crash finds in the cursor file which of the hidden files counts, gives it its name if it has it
 * not yet, and removes the others. So what has its name is never written again, and may be taken away at any time.
 *
 * @throws {IngestError} `invalid-argument` while another process has the directory or the cursor file, for a cursor file
 *   of something else, and for what cannot be written; `disk-full`.
 */
export async function openExportDirectory(options: ExportDirectoryOptions): Promise<ExportDirectory> {
  const { directory, cursorFile } = options
  const locks: (() => void)[] = []
  const unlock = () => {
    for (const release of locks.splice(0)) release()
  }
  try {
    await mkdir(directory, { recursive: true })
    locks.push(lockDirectory(directory, lockName))
    // two directories may be told to have one cursor file
    locks.push(lockDirectory(dirname(cursorFile), `${basename(cursorFile)}.lock`))
    return await openLocked(options, unlock)
  } catch (error) {
    unlock()
    throw await toWriteError(error as NodeJS.ErrnoException, directory)
  }
}

async function openLocked(options: ExportDirectoryOptions, unlock: () => void): Promise<ExportDirectory> {
  const { directory, cursorFile, project } = options
  let last = await readCursorFile(options)
  const completed = (await reconcile(options, last)) ? last : undefined

  async function write(file: string, fill: (handle: FileHandle) => Promise<FileContent>) {
    const handle = await open(join(directory, hiddenName(options, file)), 'w')
    try {
      const content = await fill(handle)
      await handle.sync()
      return { ...content, bytes: (await handle.stat()).size }
    } finally {
      await handle.close()
    }
  }

  return {
    get last() {
      return last
    },
    completed,

    async add({ receivedAt, extension }, fill) {
      const number = (last?.number ?? 0) + 1
      const file = `${project}-${String(number).padStart(8, '0')}-${toCompactTime(receivedAt)}.${extension}`
      try {
        await checkAbsent(join(directory, file), cursorFile)
        const written: ExportedFile = { file, number, ...(await write(file, fill)) }
        await syncDirectory(directory)
        await writeCursorFile(options, written)
        last = written
        await reconcile(options, last)
        return written
      } catch (error) {
        throw await toWriteError(error as NodeJS.ErrnoException, directory)
      }
    },

    async close() {
      try {
        // what failed may have failed before or after the cursor file was written
        await reconcile(options, await readCursorFile(options))
      } catch {
        // the next run does it
      } finally {
        unlock()
      }
    },
  }
}

/** Brings the directory to what the cursor file says, and tells whether that was giving the last file its name. */
async function reconcile(options: ExportDirectoryOptions, last: ExportedFile | undefined): Promise<boolean> {
  const { directory, cursorFile } = options
  const found = (await readdir(directory)).filter((name) => name.endsWith(hiddenSuffix(options)))
  const lastName = last && hiddenName(options, last.file)
  for (const name of found) if (name !== lastName) await rm(join(directory, name))
  await rm(temporaryPath(cursorFile), { force: true })
  if (last === undefined || !found.some((name) => name === lastName)) return false
  // who sees the file must not see it again after a power cut, as one that the cursor file does not know
  await syncDirectory(dirname(cursorFile))
  await rename(join(directory, hiddenName(options, last.file)), join(directory, last.file))
  await syncDirectory(directory)
  return true
}

/** `20261120T175100Z`: ISO 8601, without what a file name may not hold. */
function toCompactTime(ms: number): string {
  return new Date(ms).toISOString().replaceAll(/[-:]|\.\d+/g, '')
}

/** What a file is called until it is done with. */
function hiddenName(options: ExportDirectoryOptions, file: string): string {
  return `.${file}${hiddenSuffix(options)}`
}

/** How the names of the hidden files of one cursor file end, so that nobody removes those of another. */
function hiddenSuffix({ directory, cursorFile }: ExportDirectoryOptions): string {
  const place = relative(directory, cursorFile)
  return `.${createHash('sha256').update(place).digest('hex').slice(0, 8)}.part`
}

async function checkAbsent(path: string, cursorFile: string): Promise<void> {
  const isThere = await access(path).then(
    () => true,
    () => false,
  )
  if (!isThere) return
  throw new IngestError(
    'invalid-argument',
    `${path} is there already, and is not in ${cursorFile}: export into another directory.`,
  )
}

/** The directory as its cursor file names it, so that both can be moved together. */
function relativeDirectory({ directory, cursorFile }: ExportDirectoryOptions): string {
  return relative(dirname(cursorFile), directory) || '.'
}

async function readCursorFile(options: ExportDirectoryOptions): Promise<ExportedFile | undefined> {
  const { cursorFile, project, type = anything, buildId = anything } = options
  let text: string
  try {
    text = await readFile(cursorFile, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  const record = parseRecord(text)
  if (!record) throw new IngestError('invalid-argument', `${cursorFile} is not a cursor file of \`ingest export\`.`)
  const what: [string, string, string][] = [
    ['project', record.project, project],
    ['directory', record.directory, relativeDirectory(options)],
    ['type', record.type ?? anything, type],
    ['build', record.buildId ?? anything, buildId],
  ]
  for (const [name, expected, actual] of what) {
    if (expected === actual) continue
    const message = `${cursorFile} belongs to the ${name} ${expected}, and not to ${actual}: name another --cursor-file.`
    throw new IngestError('invalid-argument', message)
  }
  return record.last
}

interface CursorRecord {
  version: 1
  project: string
  directory: string
  type?: string | undefined
  buildId?: string | undefined
  last: ExportedFile
}

const anything = '(any)'

function parseRecord(text: string): CursorRecord | undefined {
  try {
    const record = JSON.parse(text)
    const { file, number, cursor } = record.last
    const isRecord =
      record.version === 1 && basename(file) === file && Number.isInteger(number) && typeof cursor === 'string'
    return isRecord ? record : undefined
  } catch {
    return undefined
  }
}

function temporaryPath(cursorFile: string): string {
  return `${cursorFile}.part`
}

async function writeCursorFile(options: ExportDirectoryOptions, last: ExportedFile): Promise<void> {
  const { cursorFile, project, type, buildId } = options
  const record: CursorRecord = { version: 1, project, directory: relativeDirectory(options), type, buildId, last }
  const handle = await open(temporaryPath(cursorFile), 'w')
  try {
    await handle.writeFile(`${JSON.stringify(record)}\n`)
    await handle.sync()
  } finally {
    await handle.close()
  }
  await rename(temporaryPath(cursorFile), cursorFile)
}
