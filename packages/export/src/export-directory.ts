import { createHash } from 'node:crypto'
import { access, type FileHandle, open, readdir, rename, rm } from 'node:fs/promises'
import { basename, dirname, join, posix, relative } from 'node:path'
import { IngestError } from '@ingest/core'
import { lockDirectory, makeDirectory, syncDirectory, toWriteError } from '@ingest/core/internal'
import {
  type CursorFileOptions,
  type ExportedFile,
  type FileContent,
  lockCursorFile,
  readCursorFile,
  removeTemporaryCursorFile,
  writeCursorFile,
} from './cursor-file.ts'

/** The locked directory of a running export. */
export interface ExportDirectory {
  /** The last completed file, of this run or of an earlier one. */
  readonly last: ExportedFile | undefined
  /** The last file, if opening the directory renamed it to its final name because the previous run was interrupted. */
  readonly completed: ExportedFile | undefined
  /** Adds a file with the content that `fill` writes; durable when it resolves. */
  add(name: NewFile, fill: (file: FileHandle) => Promise<FileContent>): Promise<ExportedFile>
  /** Removes incomplete files and unlocks the directory. */
  close(): Promise<void>
}

export interface NewFile {
  /** Time of receipt of the first event, in milliseconds since 1970. */
  receivedAt: number
  /** The extension of file names, without the dot. */
  extension: string
  /** Folder of the file, relative to the directory. Default: the directory itself. */
  folder?: string
}

/** The default cursor file of a directory. */
export const cursorFileName = '.ingest-export.json'
const lockName = '.ingest-export.lock'
/** Before the process's umask is applied. */
const directoryMode = 0o777

/**
 * Opens a directory for an export, creating a missing one.
 *
 * Each event is written to exactly one file, even if the process is killed or the machine loses power at any time:
 *
 * 1. The file is written under a hidden name, and synced.
 * 2. The cursor file is replaced atomically. It records this file as the last one, its final name, and the cursor up to
 *    which all events are exported.
 * 3. The file is renamed to its final name.
 *
 * After a crash, the next run reads from the cursor file which hidden file is complete, renames it if necessary, and
 * removes all other hidden files. A file with its final name is never written again, so it may be removed at any time.
 *
 * @throws {IngestError} `invalid-argument` while another process uses the directory or the cursor file, for a cursor
 *   file of another export, and for unwritable paths; `permission-denied`; `disk-full`.
 */
export async function openExportDirectory(options: CursorFileOptions): Promise<ExportDirectory> {
  const { directory } = options
  const locks: (() => void)[] = []
  const unlock = () => {
    for (const release of locks.splice(0)) release()
  }
  try {
    makeDirectory(directory, directoryMode)
    locks.push(lockDirectory(directory, lockName).unlock)
    const { cursorFile, unlock: unlockCursorFile } = lockCursorFile(options.cursorFile)
    locks.push(unlockCursorFile)
    return await openLocked({ ...options, cursorFile }, unlock)
  } catch (error) {
    unlock()
    throw toWriteError(error as NodeJS.ErrnoException, directory)
  }
}

async function openLocked(options: CursorFileOptions, unlock: () => void): Promise<ExportDirectory> {
  const { directory, cursorFile, project } = options
  let last = await readCursorFile(options)
  const completed = (await reconcile(options, last)) ? last : undefined

  return {
    get last() {
      return last
    },
    completed,

    async add({ receivedAt, extension, folder = '' }, fill) {
      const number = (last?.number ?? 0) + 1
      const name = `${project}-${String(number).padStart(8, '0')}-${toCompactTime(receivedAt)}.${extension}`
      const file = posix.join(folder, name)
      try {
        await checkAbsent(join(directory, file), cursorFile)
        const content = await writeHidden(join(directory, hiddenName(options, file)), fill)
        const written: ExportedFile = { file, number, ...content }
        await syncDirectory(directory)
        await writeCursorFile(options, written)
        last = written
        await reconcile(options, last)
        return written
      } catch (error) {
        throw toWriteError(error as NodeJS.ErrnoException, directory)
      }
    },

    async close() {
      try {
        // read again: a failed add() may have replaced the cursor file
        await reconcile(options, await readCursorFile(options))
      } catch {
        // the next run reconciles the directory
      } finally {
        unlock()
      }
    },
  }
}

async function writeHidden(path: string, fill: (file: FileHandle) => Promise<FileContent>) {
  const handle = await open(path, 'w')
  try {
    const content = await fill(handle)
    await handle.sync()
    return { ...content, bytes: (await handle.stat()).size }
  } finally {
    await handle.close()
  }
}

/** Makes the directory match the cursor file; resolves to whether the last file had to be renamed to its final name. */
async function reconcile(options: CursorFileOptions, last: ExportedFile | undefined): Promise<boolean> {
  const { directory, cursorFile } = options
  const found = (await readdir(directory)).filter((name) => name.endsWith(hiddenSuffix(options)))
  const lastName = last && hiddenName(options, last.file)
  for (const name of found) if (name !== lastName) await rm(join(directory, name))
  await removeTemporaryCursorFile(options)
  if (last === undefined) return false
  if (!found.some((name) => name === lastName)) {
    await syncFolders(directory, last.file)
    return false
  }
  // the cursor file first: otherwise a power loss could leave a visible file that the cursor file does not record
  await syncDirectory(dirname(cursorFile))
  const path = join(directory, last.file)
  makeDirectory(dirname(path), directoryMode)
  await rename(join(directory, hiddenName(options, last.file)), path)
  await syncFolders(directory, last.file)
  await syncDirectory(directory)
  return true
}

/**
 * Syncs the folders of a file within the directory, also those that exist already: a run that was killed may have
 * created them, or renamed the file, without a sync. Folders that were removed are left out.
 */
async function syncFolders(directory: string, file: string): Promise<void> {
  for (let folder = posix.dirname(file); folder !== '.'; folder = posix.dirname(folder)) {
    await syncDirectory(join(directory, folder)).catch((error) => {
      if (error.code !== 'ENOENT') throw error
    })
  }
}

/** `20261120T175100Z`: ISO 8601 without characters that file names must not contain. */
function toCompactTime(ms: number): string {
  return new Date(ms).toISOString().replaceAll(/[-:]|\.\d+/g, '')
}

/** The name of an incomplete file, which is in the directory itself. */
function hiddenName(options: CursorFileOptions, file: string): string {
  return `.${basename(file)}${hiddenSuffix(options)}`
}

/** Different for each cursor file, so that exports to one directory do not remove each other's files. */
function hiddenSuffix({ directory, cursorFile }: CursorFileOptions): string {
  const path = relative(directory, cursorFile)
  return `.${createHash('sha256').update(path).digest('hex').slice(0, 8)}.part`
}

async function checkAbsent(path: string, cursorFile: string): Promise<void> {
  const isThere = await access(path).then(
    () => true,
    () => false,
  )
  if (!isThere) return
  throw new IngestError(
    'invalid-argument',
    `${path} already exists, and is not in ${cursorFile}: export to another directory.`,
  )
}
