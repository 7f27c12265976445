import { readFileSync, statfsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { IngestError } from '@ingest/core'

/** Creating a data or lock file on a full disk is a SIGBUS, so this much must be free. */
const freeBytesMin = 16 * 2 ** 20

/** @throws {IngestError} `disk-full` when less than 16 MiB are free on the disk of `directory`, or for its data file */
export function checkFreeSpace(directory: string): void {
  const { bytes: actual, limit } = freeSpace(directory)
  if (actual >= freeBytesMin) return
  const message = `${directory} has ${actual} bytes of free space${limit}, and ${freeBytesMin} are needed.`
  throw new IngestError('disk-full', message, { limit: freeBytesMin, actual, retryAfterSeconds: 5 })
}

/** Whether less than 16 MiB are free on the disk of `directory`, or for its data file. */
export function lacksSpace(directory: string): boolean {
  return freeSpace(directory).bytes < freeBytesMin
}

/** How many bytes the data file may grow by, and what limits it besides the disk. */
function freeSpace(directory: string): { bytes: number; limit: string } {
  const { bavail, bsize } = statfsSync(directory)
  const onDisk = bavail * bsize
  const fileBytes = statSync(join(directory, 'data.mdb'), { throwIfNoEntry: false })?.size ?? 0
  const inFile = Math.max(0, fileSizeMax() - fileBytes)
  return inFile < onDisk
    ? { bytes: inFile, limit: ' below the file size limit of this process (ulimit -f)' }
    : { bytes: onDisk, limit: '' }
}

/** The file size limit of this process, in bytes; another process may change it. */
function fileSizeMax(): number {
  if (process.platform !== 'linux') return Number.POSITIVE_INFINITY
  const [, limit] = /^Max file size +(\d+) /m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
  return limit === undefined ? Number.POSITIVE_INFINITY : Number(limit)
}
