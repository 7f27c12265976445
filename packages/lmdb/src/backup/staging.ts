import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync, realpathSync, rmSync, statSync } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import { IngestError } from '@ingest/core'
import { makeDirectory } from '@ingest/core/internal'
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
  const staging = `${resolve(target)}.unfinished-${randomBytes(4).toString('hex')}`
  makeDirectory(dirname(staging))
  await mkdir(staging, { mode: 0o700 })
  try {
    const result = await fill(staging)
    const fileBytes = await syncFiles(staging)
    await giveName(staging, target)
    return { ...result, fileBytes }
  } catch (error) {
    await rm(staging, { recursive: true, force: true })
    throw error
  }
}

function checkTarget(source: string, target: string): void {
  if (existsSync(target) && !(statSync(target).isDirectory() && readdirSync(target).length === 0)) {
    throw new IngestError('invalid-argument', `${target} is not an empty directory: name another one.`)
  }
  const path = relative(realpathSync(source), realPath(target))
  if (path === '' || !(path === '..' || path.startsWith(`..${sep}`) || resolve(path) === path)) {
    throw new IngestError('invalid-argument', `${target} is inside of the store: name a directory elsewhere.`)
  }
}

/** The path without symbolic links, of which the last parts may be missing. */
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
    // of the processes that verified it
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
    // a rename replaces an empty directory, except on Windows
    if (process.platform === 'win32') rmSync(target, { recursive: true, force: true })
    await rename(staging, target)
  } catch (cause) {
    throw new IngestError('invalid-argument', `${target} was created meanwhile: ${(cause as Error).message}.`, {
      cause,
    })
  }
  await syncPath(dirname(resolve(target)))
}
