import { mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Makes a directory that only its owner may look into, and those above it that are missing. Node's own way of doing
 * that (`recursive`) never returns where the system refuses with ENOENT, as below /proc.
 */
export function makeDirectory(path: string): void {
  const existing = statSync(path, { throwIfNoEntry: false })
  if (existing?.isDirectory()) return
  if (!existing) makeDirectory(dirname(path))
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    // another process was faster
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return
    throw error
  }
}
