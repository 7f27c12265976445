import { randomBytes } from 'node:crypto'
import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { IngestError } from '../error.ts'
import { isPermissionDenied, permissionDenied } from './permission.ts'

/** Writes bytes. Resolves to false once the reader has closed its end. */
export type Write = (bytes: Uint8Array) => Promise<boolean>

/** Syncs the entries of a directory: without this, a synced file may lose its name after a power loss. */
export async function syncDirectory(path: string): Promise<void> {
  // Windows cannot sync a directory, and does not need to
  if (process.platform === 'win32') return
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

/**
 * Writes a file atomically: a failure leaves the old file. It survives a power loss once this resolves; an earlier
 * power loss leaves the old or the complete new file. The bytes go to a temporary file beside it. A pipe or a device is
 * written directly.
 *
 * @throws {IngestError} `disk-full`; `permission-denied`; `invalid-argument` for another unwritable path; and
 *   everything that `fill` throws
 */
export async function writeFile(path: string, fill: (write: Write) => Promise<void>): Promise<void> {
  const temporary = join(dirname(path), `.${basename(path)}.${randomBytes(4).toString('hex')}.part`)
  const stats = await stat(path).catch(() => undefined)
  // a rename would replace it; opening a directory fails here, before `fill` runs
  const isStream = stats !== undefined && !stats.isFile()
  try {
    const file = await (isStream ? open(path, 'w') : open(temporary, 'wx'))
    try {
      await fill((bytes) => writeAll(file, bytes))
      if (!isStream) await file.sync()
    } finally {
      await file.close()
    }
    if (!isStream) await rename(temporary, path)
  } catch (error) {
    await rm(temporary, { force: true })
    throw toWriteError(error as NodeJS.ErrnoException, path)
  }
  // a directory that is writable but not readable cannot be synced
  if (!isStream) await syncDirectory(dirname(path)).catch(() => {})
}

/** Writes all bytes; a single write may be partial. */
export async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<true> {
  for (let at = 0; at < bytes.length; ) at += (await file.write(bytes, at)).bytesWritten
  return true
}

/** Converts a file system error of a write to `path` into an `IngestError`; returns any other error unchanged. */
export function toWriteError(error: NodeJS.ErrnoException, path: string): Error {
  if (error instanceof IngestError || error.syscall === undefined) return error
  if (isPermissionDenied(error)) return permissionDenied(path, error)
  const code = isDiskFull(error) ? 'disk-full' : 'invalid-argument'
  return new IngestError(code, `${path} cannot be written: ${reasonOf(error)}`, { cause: error })
}

/** The message of a file system error without the system call and the paths, which Node appends after a comma. */
export function reasonOf({ message }: Error): string {
  return message.replace(/, \w+( '.*')?$/, '')
}

const diskFullCodes: readonly unknown[] = ['ENOSPC', 'EDQUOT', 'EFBIG', 'disk-full']

/**
 * Whether an error of the file system says that the disk, a quota, or the process's file size limit (`ulimit -f`) is
 * exhausted.
 */
export function isDiskFull(error: unknown): boolean {
  return diskFullCodes.includes((error as { code?: unknown } | undefined)?.code)
}
