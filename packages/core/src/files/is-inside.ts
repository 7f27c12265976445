import { existsSync, realpathSync } from 'node:fs'
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path'

/** Whether a path is a directory or inside it, with symbolic links resolved. Either may be missing. */
export function isInside(directory: string, path: string): boolean {
  const fromDirectory = relative(realPath(directory), realPath(path))
  return fromDirectory !== '..' && !fromDirectory.startsWith(`..${sep}`) && !isAbsolute(fromDirectory)
}

/** The path with symbolic links resolved; its last parts may be missing. */
function realPath(path: string): string {
  const absolute = resolve(path)
  if (existsSync(absolute)) return realpathSync(absolute)
  const parent = dirname(absolute)
  return parent === absolute ? absolute : join(realPath(parent), basename(absolute))
}
