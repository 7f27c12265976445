import type { EmbeddedIngest, IngestError, MapRules } from '@ingest/core'
import { InvalidArgumentError, Option } from 'commander'
import type { Io } from './io.ts'
import { printMessage } from './io.ts'

/** `--data <dir>`, or INGEST_DATA. */
export function dataOption(): Option {
  return new Option('--data <dir>', 'the directory of the store')
    .env('INGEST_DATA')
    .argParser(nonEmpty)
    .makeOptionMandatory()
}

/** `--project <id>`, or INGEST_PROJECT_ID. */
export function projectOption(): Option {
  return new Option('--project <id>', 'the project').env('INGEST_PROJECT_ID').argParser(parseProjectId).makeOptionMandatory()
}

/** `--json`. */
export function jsonOption(): Option {
  return new Option('--json', 'print one JSON object, also on failure')
}

/**
 * Checks a project id for commander, before anything is opened. The rule is that of `isProjectId`, repeated so that the
 * core is not loaded for it.
 */
export function parseProjectId(text: string): string {
  if (/^[A-Za-z0-9._-]{1,64}$/.test(text)) return text
  throw new InvalidArgumentError('A project id is 1 to 64 of A-Z a-z 0-9 . _ -')
}

/** Any text but none, for commander: an empty directory or address would be taken for quite another one. */
export function nonEmpty(text: string): string {
  if (text !== '') return text
  throw new InvalidArgumentError('Expected something that is not empty.')
}

/** A whole number from `min` to `max`, for commander. */
export function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const number = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
    if (number >= min && number <= max) return number
    throw new InvalidArgumentError(`Expected a whole number from ${min} to ${max}.`)
  }
}

const bytesPerUnit: Record<string, number> = { '': 1, K: 2 ** 10, M: 2 ** 20, G: 2 ** 30 }

/** A number of bytes from `min` to `max`, for commander: `1048576`, `1024K` or `1M`. */
export function byteCount(min: number, max: number): (text: string) => number {
  return (text) => {
    const [, count = '', unit = ''] = /^(\d{1,13})([KMG]?)$/.exec(text) ?? []
    const bytes = count === '' ? Number.NaN : Number(count) * (bytesPerUnit[unit] as number)
    if (bytes >= min && bytes <= max) return bytes
    throw new InvalidArgumentError(`Expected a number of bytes from ${min} to ${max}, such as 512K or 32M.`)
  }
}

const msPerUnit: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** `90d`, `48h`, `30m` or `10s`, in milliseconds; NaN for anything else. */
export function durationMs(text: string): number {
  const [, count = '', unit = ''] = /^(\d{1,6})([smhd])$/.exec(text) ?? []
  return Number(count) * (msPerUnit[unit] ?? Number.NaN)
}

/** A duration in milliseconds, for commander. */
export function parseDuration(text: string): number {
  const ms = durationMs(text)
  if (Number.isNaN(ms)) throw new InvalidArgumentError('Expected a number with a unit: 10s, 30m, 48h or 90d.')
  return ms
}

/**
 * The time that an option says, in milliseconds since 1970: `10m` for ten minutes ago, or a time.
 *
 * @throws {IngestError} `invalid-argument`
 */
export async function parseTimeOption(option: string, text: string): Promise<number> {
  const ms = durationMs(text)
  if (!Number.isNaN(ms)) return Date.now() - ms
  // loaded here, so that --help and wrong use answer at once
  const { IngestError, parseTime } = await import('@ingest/core')
  const time = parseTime(text)
  if (time !== undefined) return time
  throw new IngestError(
    'invalid-argument',
    `${option} is a duration such as 10m, or a time such as 2026-11-20T17:51:00Z.`,
  )
}

export interface OpenOptions {
  data: string
  /** The project that it is opened for. */
  project?: string
  /** Whether to make the store when it is missing. */
  create?: boolean
  maps?: MapRules
  onFatal?: (error: IngestError) => void
  /** Called now and then with how far the id index is rebuilt; a line on stderr by default. */
  onRebuild?: (percent: number) => void
}

const rebuildReportMs = 1000

/**
 * Opens the store in a directory for as long as `use` takes.
 *
 * @throws {IngestError} `invalid-argument` for a project or a directory that cannot be one, and what `openLmdbStore`
 *   refuses with.
 */
export async function withIngest<T>(
  io: Pick<Io, 'stderr'>,
  options: OpenOptions,
  use: (ingest: EmbeddedIngest) => Promise<T>,
): Promise<T> {
  // loaded here, so that --help and wrong use answer at once
  const [core, { openLmdbStore }] = await Promise.all([import('@ingest/core'), import('@ingest/lmdb')])
  const { createIngest, IngestError, isProjectId } = core
  const { data, project, create = false, maps = {}, onFatal = () => {} } = options
  const report = options.onRebuild ?? ((percent: number) => printMessage(io, `rebuilding the id index: ${percent} %`))
  if (project !== undefined && !isProjectId(project)) {
    throw new IngestError('invalid-argument', `A project id is 1 to 64 of A-Z a-z 0-9 . _ -, not "${project}".`)
  }
  let reportedAt = Number.NEGATIVE_INFINITY
  const store = await openLmdbStore(data, {
    create,
    onFatal,
    onRebuild({ done, total }) {
      if (performance.now() - reportedAt < rebuildReportMs) return
      reportedAt = performance.now()
      report(Math.floor((100 * done) / total))
    },
  })
  const ingest = createIngest({ store, maps })
  try {
    return await use(ingest)
  } finally {
    await ingest.close()
  }
}
