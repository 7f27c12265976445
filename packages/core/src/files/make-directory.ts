import { closeSync, fsyncSync, lstatSync, mkdirSync, openSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { IngestError } from '../error.ts'
import { isPermissionDenied, permissionDenied } from './permission.ts'
import { isDiskFull, reasonOf } from './write-file.ts'

/**
 * Creates a directory and its missing parents, durably. Node's `recursive` option never returns if the system reports
 * ENOENT, as below /proc.
 *
 * @param mode Default: only its owner may access it
 * @param onCreated called with each directory that was created, from the top
 * @throws {IngestError} `disk-full`, `permission-denied`, or `invalid-argument` for a path that cannot be a directory
 */
export function makeDirectory(path: string, mode = 0o700, onCreated: (path: string) => void = () => {}): void {
  try {
    make(path, mode, onCreated)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).syscall === undefined) throw error
    if (isPermissionDenied(error)) throw permissionDenied(path, error)
    const reason = isDangling(path) ? 'it is a symbolic link to nothing' : reasonOf(error as Error)
    if (isDiskFull(error)) throw new IngestError('disk-full', `${path} cannot be written: ${reason}`, { cause: error })
    throw new IngestError('invalid-argument', `${path} cannot be a directory: ${reason}`, { cause: error })
  }
}

function make(path: string, mode: number, onCreated: (path: string) => void): void {
  const existing = statSync(path, { throwIfNoEntry: false })
  if (existing?.isDirectory()) return
  const parent = dirname(path)
  if (!existing) makeDirectory(parent, mode, onCreated)
  try {
    mkdirSync(path, { mode })
  } catch (error) {
    // another process may have created it
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return
    throw error
  }
  onCreated(path)
  syncDirectoryNow(parent)
}

/** Whether a path is a symbolic link whose target is missing. */
export function isDangling(path: string): boolean {
  try {
    // resolve() removes a trailing slash: with one, lstat follows the link
    return lstatSync(resolve(path)).isSymbolicLink() && statSync(path, { throwIfNoEntry: false }) === undefined
  } catch {
    return false
  }
}

/** Makes the entries of a directory durable; blocks until they are. */
export function syncDirectoryNow(path: string): void {
  // Windows cannot sync a directory, and does not need to
  if (process.platform === 'win32') return
  const directory = openSync(path, 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}
