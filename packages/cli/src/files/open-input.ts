import { type BigIntStats, fstat } from 'node:fs'
import { open, stat } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { promisify } from 'node:util'
import { IngestError } from '@ingest/core'
import type { Io } from '../io.ts'

/** The input of a command. */
export interface Input {
  stream: Readable
  /** In bytes; null for a pipe or a device. */
  size: number | null
}

const chunkBytes = 256 * 1024

/**
 * Must be called with `bigint: true`: after a plain `fstat` of a pipe, Node no longer resolves symbolic links to
 * modules (https://github.com/nodejs/node/issues/51142).
 */
const statDescriptor = promisify(fstat)

/**
 * Opens a file, or standard input for `-`.
 *
 * @throws {IngestError} `invalid-argument` for an unreadable file or a directory, and if `output` is the same file.
 */
export async function openInput({ stdin }: Pick<Io, 'stdin'>, file: string, output?: string): Promise<Input> {
  const refusal = (reason: string, cause?: unknown) => new IngestError('invalid-argument', reason, { cause })
  const handle = file === '-' ? undefined : await open(file).catch(unreadable)
  try {
    const stats = handle ? await handle.stat({ bigint: true }) : await statOfStream(stdin)
    if (stats?.isDirectory()) throw refusal(`${inputName(file)} is a directory, not a file.`)
    if (output !== undefined && stats && (await isSame(output, stats)))
      throw refusal(`${output} is the input file: name another.`)
    const stream = handle ? handle.createReadStream({ highWaterMark: chunkBytes }) : stdin
    return { stream, size: stats?.isFile() ? Number(stats.size) : null }
  } catch (error) {
    await handle?.close()
    if (error instanceof IngestError) throw error
    return unreadable(error as Error)
  }

  function unreadable(error: Error): never {
    throw refusal(`The file cannot be read: ${error.message}`, error)
  }
}

async function statOfStream({ fd }: Io['stdin']): Promise<BigIntStats | undefined> {
  return fd === undefined ? undefined : statDescriptor(fd, { bigint: true })
}

function inputName(file: string): string {
  return file === '-' ? 'standard input' : file
}

async function isSame(path: string, { dev, ino }: BigIntStats): Promise<boolean> {
  const other = await stat(path, { bigint: true }).catch(() => undefined)
  return other?.dev === dev && other.ino === ino
}
