import { InvalidArgumentError, Option } from 'commander'

/** `--project <id>`, or INGEST_PROJECT_ID. */
export function projectOption(): Option {
  return new Option('--project <id>', 'project id')
    .env('INGEST_PROJECT_ID')
    .argParser(parseProjectId)
    .makeOptionMandatory()
}

/** `--json`. */
export function jsonOption(): Option {
  return new Option('--json', 'print one JSON object, on failure too')
}

/** `--place <id>`. */
export function placeOption(): Option {
  return new Option('--place <id>', 'placeId of the map').argParser(nonEmpty)
}

/** `--build <id>`. */
export function buildOption(): Option {
  return new Option('--build <id>', 'buildId of the map').argParser(nonEmpty)
}

/** `--quiet`. */
export function quietOption(): Option {
  return new Option('--quiet', 'print only errors, and the object of --json')
}

/**
 * Parses a project id. It repeats the rule of `isProjectId`, so that wrong usage is reported without loading the core.
 *
 * @throws {InvalidArgumentError}
 */
export function parseProjectId(text: string): string {
  if (/^[A-Za-z0-9._-]{1,64}$/.test(text)) return text
  throw new InvalidArgumentError('Expected a project id: 1 to 64 of A-Z a-z 0-9 . _ -')
}

/**
 * Parses any non-empty text. An empty path or address would silently mean another one, such as the current directory.
 *
 * @throws {InvalidArgumentError}
 */
export function nonEmpty(text: string): string {
  if (text !== '') return text
  throw new InvalidArgumentError('Expected a non-empty value.')
}

/** A parser of integers from `min` to `max`; it throws {@link InvalidArgumentError}. */
export function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const number = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
    if (number >= min && number <= max) return number
    throw new InvalidArgumentError(`Expected an integer from ${min} to ${max}.`)
  }
}

const bytesPerUnit: Record<string, number> = { '': 1, K: 2 ** 10, M: 2 ** 20, G: 2 ** 30 }

/** A parser of sizes from `min` to `max` bytes: `1048576`, `1024K` or `1M`; it throws {@link InvalidArgumentError}. */
export function byteCount(min: number, max: number): (text: string) => number {
  return (text) => {
    const [, count = '', unit = ''] = /^(\d{1,13})([KMG]?)$/.exec(text) ?? []
    const bytes = count === '' ? Number.NaN : Number(count) * (bytesPerUnit[unit] as number)
    if (bytes >= min && bytes <= max) return bytes
    throw new InvalidArgumentError(`Expected a size from ${min} to ${max} bytes, such as 512K or 32M.`)
  }
}

const msPerUnit: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** `90d`, `48h`, `30m` or `10s` in milliseconds; NaN for any other text. */
export function durationMs(text: string): number {
  const [, count = '', unit = ''] = /^(\d{1,6})([smhd])$/.exec(text) ?? []
  return Number(count) * (msPerUnit[unit] ?? Number.NaN)
}

/**
 * Parses a duration into milliseconds.
 *
 * @throws {InvalidArgumentError}
 */
export function parseDuration(text: string): number {
  const ms = durationMs(text)
  if (Number.isNaN(ms)) throw new InvalidArgumentError('Expected a duration with a unit: 10s, 30m, 48h or 90d.')
  return ms
}

/**
 * Parses a time, or a duration before now such as `10m`, into milliseconds since 1970.
 *
 * @throws {IngestError} `invalid-argument`
 */
export async function parseTimeOption(option: string, text: string): Promise<number> {
  const ms = durationMs(text)
  if (!Number.isNaN(ms)) return Date.now() - ms
  // loaded on demand: --help and wrong usage need not wait for it
  const { IngestError } = await import('@ingest/core')
  const { parseTime } = await import('@ingest/core/internal')
  const time = parseTime(text)
  if (time !== undefined) return time
  throw new IngestError(
    'invalid-argument',
    `${option} expects a duration such as 10m, or a time such as 2026-11-20T17:51:00Z.`,
  )
}
