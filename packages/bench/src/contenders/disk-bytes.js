import { readdirSync, statfsSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** The bytes on disk of the files of a directory; 0 if it is missing. @param {string} directory */
export function diskBytes(directory) {
  let bytes = 0
  for (const entry of entriesOf(directory)) {
    if (entry.isFile()) bytes += statSync(join(entry.parentPath ?? entry.path, entry.name)).blocks * 512
  }
  return bytes
}

/** @param {string} directory */
export function freeDiskBytes(directory) {
  const { bavail, bsize } = statfsSync(directory)
  return bavail * bsize
}

/** @param {string} directory */
function entriesOf(directory) {
  try {
    return readdirSync(directory, { recursive: true, withFileTypes: true })
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === 'ENOENT') return []
    throw error
  }
}
