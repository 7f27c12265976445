import { type EventFilter, IngestError } from '@ingest/core'
import { filterNames, isProjectId, parseTime } from '@ingest/core/internal'
import { type Command, CommanderError, InvalidArgumentError, Option } from 'commander'

/** A parser of the text of an option; it throws {@link InvalidArgumentError}. */
export type Parser<T> = (text: string) => T

/** `--project <id>`, or INGEST_PROJECT_ID. */
export function projectOption(): Option {
  return new Option('--project <id>', 'project id')
    .env('INGEST_PROJECT_ID')
    .argParser(parseProjectId)
    .makeOptionMandatory()
}

export function jsonOption(): Option {
  return new Option('--json', 'print one JSON object, on failure too')
}

export function placeOption(): Option {
  return new Option('--place <id>', 'placeId of the map').argParser(nonEmpty)
}

export function buildOption(): Option {
  return new Option('--build <id>', 'buildId of the map').argParser(nonEmpty)
}

/** Adds an option for each member that filters events: `--type <type>`, `--build <id>`, … */
export function addFilterOptions(command: Command): Command {
  for (const name of filterNames) {
    const flag = flagOf(name)
    command.option(`--${flag} <${flag === name ? flag : 'id'}>`, `only events of this ${flag}`, nonEmpty)
  }
  return command
}

/** The filter of the parsed options. */
export function parseFilter(options: Partial<Record<string, unknown>>): EventFilter {
  const filter: EventFilter = {}
  for (const name of filterNames) {
    const value = options[flagOf(name)]
    if (typeof value === 'string') filter[name] = value
  }
  return filter
}

function flagOf(name: string): string {
  return name.replace(/Id$/, '')
}

export function quietOption(): Option {
  return new Option('--quiet', 'print only errors, and the object of --json')
}

/**
 * Parses a project id.
 *
 * @throws {InvalidArgumentError}
 */
export function parseProjectId(text: string): string {
  if (isProjectId(text)) return text
  throw new InvalidArgumentError('Expected a project id: 1 to 64 of A-Z a-z 0-9 . _ -')
}

/**
 * Parses any non-empty text. An empty path or address would silently mean something else, such as the current
 * directory.
 *
 * @throws {InvalidArgumentError}
 */
export function nonEmpty(text: string): string {
  if (text !== '') return text
  throw new InvalidArgumentError('Expected a non-empty value.')
}

/** The scheme of a URL. A single letter is a Windows drive. */
const urlPattern = /^[a-z][a-z\d+.:-]+:\/\//i

/** Whether text is a URL, which as a path would create a directory of that name. */
export function isUrl(text: string): boolean {
  return urlPattern.test(text)
}

/**
 * Parses a path on this machine. The message does not repeat a URL, which may hold a password.
 *
 * @throws {CommanderError} {@link InvalidArgumentError} for no text
 */
export function parsePath(path: string): string {
  if (!isUrl(path)) return nonEmpty(path)
  throw new CommanderError(1, 'ingest.path', 'a file or a directory is a path on this machine, not a URL')
}

/** A parser of integers from `min` to `max`; it throws {@link InvalidArgumentError}. */
export function wholeNumber(min: number, max: number): Parser<number> {
  return (text) => {
    const number = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
    if (number >= min && number <= max) return number
    throw new InvalidArgumentError(`Expected an integer from ${min} to ${max}.`)
  }
}

const sizePattern = /^(\d{1,13})([KMG]?)$/i
const bytesPerUnit: Record<string, number> = { '': 1, K: 2 ** 10, M: 2 ** 20, G: 2 ** 30 }

/** A parser of sizes from `min` to `max` bytes: `1048576`, `1024K` or `1M`; it throws {@link InvalidArgumentError}. */
export function byteCount(min: number, max: number): Parser<number> {
  return (text) => {
    const [, count = '', unit = ''] = sizePattern.exec(text) ?? []
    const bytes = count === '' ? Number.NaN : Number(count) * (bytesPerUnit[unit.toUpperCase()] as number)
    if (bytes >= min && bytes <= max) return bytes
    throw new InvalidArgumentError(`Expected a size from ${min} to ${max} bytes, such as 512K or 32M.`)
  }
}

const durationPattern = /^(\d{1,6})([smhd])$/
const msPerUnit: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** `90d`, `48h`, `30m` or `10s` in milliseconds; NaN for any other text. */
export function durationMs(text: string): number {
  const [, count = '', unit = ''] = durationPattern.exec(text) ?? []
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
 * Parses a duration greater than 0. A 0 from a script is a mistake: it would erase everything, or not wait at all.
 *
 * @throws {InvalidArgumentError}
 */
export function parsePositiveDuration(text: string): number {
  const ms = parseDuration(text)
  if (ms > 0) return ms
  throw new InvalidArgumentError('Expected a duration of more than 0, such as 10s or 90d.')
}

/** A parser of durations of at most `max`, such as `24h`. */
export function durationUpTo(max: string): Parser<number> {
  return (text) => {
    const ms = parseDuration(text)
    if (ms <= durationMs(max)) return ms
    throw new InvalidArgumentError(`Expected a duration of at most ${max}.`)
  }
}

/**
 * Smaller numbers are not accepted as milliseconds: with fewer than 12 digits, they are likely seconds, or a duration
 * without its unit. This is a time in 1973.
 */
const numericTimeMin = 100_000_000_000

/** Parses an RFC 3339 time or milliseconds since 1970; undefined for other text and for numbers that are too small. */
export function parseTimeText(text: string): number | undefined {
  const time = parseTime(text)
  return time !== undefined && /^\d+$/.test(text) && time < numericTimeMin ? undefined : time
}

/**
 * Parses a time, or a duration before now such as `10m`, into milliseconds since 1970.
 *
 * @throws {IngestError} `invalid-argument`
 */
export function parseTimeOption(option: string, text: string): number {
  const ms = durationMs(text)
  if (!Number.isNaN(ms)) return Date.now() - ms
  const time = parseTimeText(text)
  if (time !== undefined) return time
  throw new IngestError(
    'invalid-argument',
    `${option} expects a duration such as 10m, or a time such as 2026-11-20T17:51:00Z.`,
  )
}
