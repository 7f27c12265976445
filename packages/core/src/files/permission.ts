import { type Stats, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { IngestError } from '../error.ts'

/** Whether an error of the file system is about missing permissions, or about a read-only file system. */
export function isPermissionDenied(error: unknown): boolean {
  return ['EACCES', 'EPERM', 'EROFS'].includes(codeOf(error) ?? '')
}

function codeOf(error: unknown): string | undefined {
  return ((error ?? {}) as NodeJS.ErrnoException).code
}

/**
 * The `permission-denied` error for a path: names the remedy, and the owner of the path, or of its nearest visible
 * parent.
 */
export function permissionDenied(path: string, cause?: unknown): IngestError {
  if (codeOf(cause) === 'EROFS') {
    const message = `${path}: its file system is read-only. Remount it for writing, or use another directory.`
    return new IngestError('permission-denied', message, { cause })
  }
  const [at, stats] = nearest(path)
  const owner = `${at === path ? 'it' : at} belongs to uid ${stats.uid}`
  const own = process.geteuid?.() ?? stats.uid
  const mode = (stats.mode & 0o7777).toString(8).padStart(4, '0')
  const message =
    own === stats.uid
      ? `${path}: permission denied: ${owner}, as this process does, but its mode is ${mode}. Change the mode.`
      : `${path}: permission denied: ${owner}, and this process runs as uid ${own}. Run it as that user.`
  return new IngestError('permission-denied', message, { cause })
}

/** Converts a permission error of the file system that names a path; returns any other error unchanged. */
export function asPermissionDenied(error: unknown): unknown {
  const { path } = (error ?? {}) as NodeJS.ErrnoException
  return isPermissionDenied(error) && path !== undefined ? permissionDenied(path, error) : error
}

/** The path, or the nearest parent directory, that this process may stat. */
function nearest(path: string): [path: string, stats: Stats] {
  try {
    return [path, statSync(path)]
  } catch {
    return dirname(path) === path ? [path, statSync('.')] : nearest(dirname(path))
  }
}
