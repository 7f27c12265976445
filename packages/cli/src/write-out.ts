import type { Io } from './io.ts'

/**
 * Writes to standard output. Resolves once the next write may follow: to true, or to false once nobody reads it any
 * more, as behind `| head`.
 *
 * @throws {IngestError} `disk-full`
 */
export function writeOut({ stdout }: Pick<Io, 'stdout'>, data: string | Uint8Array): Promise<boolean> {
  return new Promise((resolve, reject) => {
    stdout.write(data, (error?: NodeJS.ErrnoException | null) => {
      if (!error) resolve(true)
      else if (error.code === 'EPIPE' || error.code === 'ERR_STREAM_DESTROYED') resolve(false)
      else refusalOf(error).then(reject, reject)
    })
  })
}

/** Writes the object of `--json` to standard output. */
export function writeJson(io: Pick<Io, 'stdout'>, object: object): Promise<boolean> {
  return writeOut(io, `${JSON.stringify(object)}\n`)
}

/** Writes one line for people to standard error. */
export function say({ stderr }: Pick<Io, 'stderr'>, text: string): void {
  stderr.write(`ingest: ${text.trim().replaceAll(/\s*\n\s*/g, ' ')}\n`)
}

async function refusalOf(error: NodeJS.ErrnoException): Promise<Error> {
  if (error.code !== 'ENOSPC') return error
  const { IngestError } = await import('@ingest/core')
  return new IngestError('disk-full', 'what standard output goes to is full', { cause: error })
}
