import { randomBytes } from 'node:crypto'
import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Write } from './check-content.ts'

/** Makes the names in a directory outlive a power cut: a synced file may otherwise be there under no name. */
export async function syncDirectory(path: string): Promise<void> {
  // Windows has no handle for a folder, and no need of one
  if (process.platform === 'win32') return
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

/**
 * Writes a file with what `fill` writes: it is there whole, or as it was before. Meanwhile the bytes are in a file
 * beside it. What is no file, such as a pipe or a device, is written to as the bytes come.
 *
 * @throws {IngestError} `disk-full`, `invalid-argument` for a path that cannot be written to, and what `fill` throws.
 */
export async function writeFile(path: string, fill: (write: Write) => Promise<void>): Promise<void> {
  const temporary = join(dirname(path), `.${basename(path)}.${randomBytes(4).toString('hex')}.part`)
  const there = await stat(path).catch(() => undefined)
  // renaming would put a file in its place; a directory cannot be opened, and is refused before `fill` does anything
  const isStream = there !== undefined && !there.isFile()
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
    throw await toWriteError(error as NodeJS.ErrnoException, path)
  }
}

/** Writes all of the bytes; one write may be of a part of them. */
export async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<true> {
  for (let at = 0; at < bytes.length; ) at += (await file.write(bytes, at)).bytesWritten
  return true
}

/** What a file system says of a write to `path`, as a refusal; anything else as it is. */
export async function toWriteError(error: NodeJS.ErrnoException, path: string): Promise<Error> {
  const { IngestError } = await import('@ingest/core')
  if (error instanceof IngestError || error.syscall === undefined) return error
  const code = error.code === 'ENOSPC' ? 'disk-full' : 'invalid-argument'
  // without the names of temporary files, which Node puts behind a comma
  const reason = error.message.replace(/, \w+( '.*')?$/, '')
  return new IngestError(code, `${path} cannot be written: ${reason}`, { cause: error })
}
