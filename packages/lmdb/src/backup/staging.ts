import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync, realpathSync, rmSync, statSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import { IngestError } from '@ingest/core'
import { isDangling, makeDirectory, toWriteError } from '@ingest/core/internal'
import { giveAll, makeOwnedDirectory, ownerAt } from '../environment/directory.ts'
import { syncPath } from './restore-lmdb-store.ts'

/**
 * Fills a directory beside the target, `<target>.unfinished-…`, makes it durable, and gives it the name of the target,
 * which must be empty or missing and not inside the directory of the source. Removes it on failure.
 *
 * @throws {IngestError} `invalid-argument` for such a target, and the errors of `fill`
 */
export async function fillDirectory<T>(
  source: string,
  target: string,
  fill: (staging: string) => Promise<T>,
): Promise<T & { fileBytes: number }> {
  checkTarget(source, target)
  // a rename replaces a symbolic link itself, not the directory that it points to
  const path = realPath(target)
  const staging = `${path}.unfinished-${randomBytes(4).toString('hex')}`
  makeOwnedDirectory(dirname(staging))
  // owned by this user until it is filled, so that nobody else can change its contents
  makeDirectory(staging)
  const owner = ownerAt(path)
  try {
    const result = await fill(staging)
    giveAll(staging, owner)
    const fileBytes = await syncFiles(staging)
    await giveName(staging, path)
    return { ...result, fileBytes }
  } catch (error) {
    await rm(staging, { recursive: true, force: true })
    throw error
  }
}

function checkTarget(source: string, target: string): void {
  if (isDangling(target) || (existsSync(target) && !isEmptyDirectory(target))) {
    throw new IngestError('invalid-argument', `${target} is not an empty directory: name another one.`)
  }
  const path = relative(realpathSync(source), realPath(target))
  if (path === '' || !(path === '..' || path.startsWith(`..${sep}`) || resolve(path) === path)) {
    throw new IngestError('invalid-argument', `${target} is inside of the store: name a directory elsewhere.`)
  }
}

function isEmptyDirectory(path: string): boolean {
  try {
    return statSync(path).isDirectory() && readdirSync(path).length === 0
  } catch (error) {
    throw toWriteError(error as NodeJS.ErrnoException, path)
  }
}

/** The path with symbolic links resolved; its last parts may be missing. */
function realPath(path: string): string {
  const absolute = resolve(path)
  if (existsSync(absolute)) return realpathSync(absolute)
  const parent = dirname(absolute)
  return parent === absolute ? absolute : join(realPath(parent), basename(absolute))
}

/** Makes the files durable; returns their size in bytes. */
async function syncFiles(staging: string): Promise<number> {
  let bytes = 0
  for (const name of readdirSync(staging)) {
    // left by the processes that verified the store
    rmSync(join(staging, name, 'lock.mdb'), { force: true })
    await syncPath(join(staging, name, 'data.mdb'))
    await syncPath(join(staging, name))
    bytes += statSync(join(staging, name, 'data.mdb')).size
  }
  await syncPath(staging)
  return bytes
}

async function giveName(staging: string, target: string): Promise<void> {
  try {
    // a rename replaces an empty directory, but not on Windows
    if (process.platform === 'win32') rmSync(target, { recursive: true, force: true })
    await rename(staging, target)
  } catch (cause) {
    throw new IngestError('invalid-argument', `${target} was created meanwhile: ${(cause as Error).message}.`, {
      cause,
    })
  }
  await syncPath(dirname(resolve(target)))
}
