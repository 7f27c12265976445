import { type Command, CommanderError, InvalidArgumentError, Option } from 'commander'

/** A parser of the text of an option; it throws {@link InvalidArgumentError}. */
export type Parser<T> = (text: string) => T

/** What the file of settings may hold for an option, as JSON Schema. */
export interface ValueSchema {
  type: ValueType | readonly ValueType[]
  /** `path`: relative to the file. */
  format?: 'path'
  [keyword: string]: unknown
}

type ValueType = 'string' | 'integer' | 'boolean' | 'array' | 'object'

const schemas = new WeakMap<object, ValueSchema>()

/** Says what a parser takes where its option is set in the file of settings. Without it, that is any string. */
export function expects<T extends (text: string) => unknown>(schema: ValueSchema, parse: T): T {
  schemas.set(parse, schema)
  return parse
}

/** The schema that {@link expects} gave to a parser. */
export function schemaOfParser(parse: object | undefined): ValueSchema {
  return (parse && schemas.get(parse)) ?? { type: 'string' }
}

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

const projectIdPattern = /^[A-Za-z0-9._-]{1,64}$/

/**
 * Parses a project id. It repeats the rule of `isProjectId`, so that wrong usage is reported without loading the core.
 *
 * @throws {InvalidArgumentError}
 */
export function parseProjectId(text: string): string {
  if (projectIdPattern.test(text)) return text
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

/** The scheme of a URL. One letter is a drive of Windows. */
const urlPattern = /^[a-z][a-z\d+.:-]+:\/\//i

/** Whether text is a URL, of which a path would be a directory of that name. */
export function isUrl(text: string): boolean {
  return urlPattern.test(text)
}

/** Any non-empty text. */
const text = { type: 'string', minLength: 1 } as const
expects(text, nonEmpty)
expects({ type: 'string', pattern: projectIdPattern.source }, parseProjectId)

/**
 * Parses a path on this machine: in the file of settings, it is relative to that file. The message does not repeat a URL,
 * which may hold a password.
 *
 * @throws {CommanderError} {@link InvalidArgumentError} for no text
 */
export const parsePath: Parser<string> = expects({ ...text, format: 'path' }, (path) => {
  if (!isUrl(path)) return nonEmpty(path)
  throw new CommanderError(1, 'ingest.path', 'a file or a directory is a path on this machine, not a URL')
})

/**
 * Parses `true` or `false`.
 *
 * @throws {InvalidArgumentError}
 */
export function parseBoolean(text: string): boolean {
  if (text === 'true' || text === 'false') return text === 'true'
  throw new InvalidArgumentError('Expected true or false.')
}

/** A parser of integers from `min` to `max`; it throws {@link InvalidArgumentError}. */
export function wholeNumber(min: number, max: number): Parser<number> {
  return expects({ type: 'integer', minimum: min, maximum: max }, (text) => {
    const number = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
    if (number >= min && number <= max) return number
    throw new InvalidArgumentError(`Expected an integer from ${min} to ${max}.`)
  })
}

const sizePattern = /^(\d{1,13})([KMG]?)$/
const bytesPerUnit: Record<string, number> = { '': 1, K: 2 ** 10, M: 2 ** 20, G: 2 ** 30 }

/** A parser of sizes from `min` to `max` bytes: `1048576`, `1024K` or `1M`; it throws {@link InvalidArgumentError}. */
export function byteCount(min: number, max: number): Parser<number> {
  const schema = { type: ['string', 'integer'], pattern: sizePattern.source, minimum: min, maximum: max } as const
  return expects(schema, (text) => {
    const [, count = '', unit = ''] = sizePattern.exec(text) ?? []
    const bytes = count === '' ? Number.NaN : Number(count) * (bytesPerUnit[unit] as number)
    if (bytes >= min && bytes <= max) return bytes
    throw new InvalidArgumentError(`Expected a size from ${min} to ${max} bytes, such as 512K or 32M.`)
  })
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

expects({ type: 'string', pattern: durationPattern.source }, parseDuration)

/**
 * Parses a duration of more than 0: a script means 0 by mistake, which would erase everything, or wait for nothing.
 *
 * @throws {InvalidArgumentError}
 */
export function parsePositiveDuration(text: string): number {
  const ms = parseDuration(text)
  if (ms > 0) return ms
  throw new InvalidArgumentError('Expected a duration of more than 0, such as 10s or 90d.')
}

expects({ type: 'string', pattern: durationPattern.source }, parsePositiveDuration)

/** A parser of durations of at most `max`, such as `24h`. */
export function durationUpTo(max: string): Parser<number> {
  return expects({ type: 'string', pattern: durationPattern.source }, (text) => {
    const ms = parseDuration(text)
    if (ms <= durationMs(max)) return ms
    throw new InvalidArgumentError(`Expected a duration of at most ${max}.`)
  })
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

/** Where the value of an option may come from, the strongest first, as commander names it. */
export const sources = ['cli', 'env', 'config'] as const

/**
 * Those of `names` that the strongest source sets: options on the command line replace all of them in the environment,
 * and these replace all in the file of settings. Defaults do not count.
 */
export function chosenOptions<T extends string>(command: Command, names: readonly T[]): T[] {
  for (const source of sources) {
    const chosen = names.filter((name) => command.getOptionValueSource(name) === source)
    if (chosen.length > 0) return chosen
  }
  return []
}
