import { closeSync, fsyncSync, mkdirSync, openSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Creates a directory that only its owner may access, and its missing parents, durably. `recursive` of Node never
 * returns where the system responds with ENOENT, as below /proc.
 */
export function makeDirectory(path: string): void {
  const existing = statSync(path, { throwIfNoEntry: false })
  if (existing?.isDirectory()) return
  if (!existing) makeDirectory(dirname(path))
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    // another process may have created it
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return
    throw error
  }
  syncDirectory(dirname(path))
}

/** Makes the names in a directory durable. */
export function syncDirectory(path: string): void {
  // Windows cannot sync a directory, and does not need it
  if (process.platform === 'win32') return
  const directory = openSync(path, 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}
