import { type Stats, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { IngestError } from '../error.ts'

/** Whether an error of the file system says that the user of this process may not do this. */
export function isPermissionDenied(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown }
  return code === 'EACCES' || code === 'EPERM'
}

/** The `permission-denied` for a path: whose it is, or that of its parent that can be looked at, and what to do. */
export function permissionDenied(path: string, cause?: unknown): IngestError {
  const [at, stats] = nearest(path)
  const owner = `${at === path ? 'it' : at} belongs to uid ${stats.uid}`
  const own = process.geteuid?.() ?? stats.uid
  const mode = (stats.mode & 0o7777).toString(8).padStart(4, '0')
  const message =
    own === stats.uid
      ? `${path}: permission denied, although ${owner}, as which this process runs: its mode is ${mode}.`
      : `${path}: permission denied: ${owner}, and this process runs as uid ${own}. Run it as that user.`
  return new IngestError('permission-denied', message, { cause })
}

/** The `permission-denied` for an error of the file system that says so and names a path; any other error as it is. */
export function asPermissionDenied(error: unknown): unknown {
  const { path } = (error ?? {}) as NodeJS.ErrnoException
  return isPermissionDenied(error) && path !== undefined ? permissionDenied(path, error) : error
}

/** The path, or the nearest directory above it, that this process may look at. */
function nearest(path: string): [path: string, stats: Stats] {
  try {
    return [path, statSync(path)]
  } catch {
    return dirname(path) === path ? [path, statSync('.')] : nearest(dirname(path))
  }
}
