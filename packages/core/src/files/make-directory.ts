import { closeSync, fsyncSync, mkdirSync, openSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Creates a directory and its missing parents, durably. `recursive` of Node never returns where the system responds with
 * ENOENT, as below /proc.
 *
 * @param mode Default: only its owner may access it
 */
export function makeDirectory(path: string, mode = 0o700): void {
  const existing = statSync(path, { throwIfNoEntry: false })
  if (existing?.isDirectory()) return
  if (!existing) makeDirectory(dirname(path), mode)
  try {
    mkdirSync(path, { mode })
  } catch (error) {
    // another process may have created it
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return
    throw error
  }
  syncDirectoryNow(dirname(path))
}

/** Makes the names in a directory durable, and blocks until they are. */
export function syncDirectoryNow(path: string): void {
  // Windows cannot sync a directory, and does not need it
  if (process.platform === 'win32') return
  const directory = openSync(path, 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}
