import { IngestError } from '@ingest/core'
import { parseTime } from '@ingest/core/internal'

/**
 * Parses the parameters of a query. Unknown and repeated parameters are errors: a misspelt `dryRun` would publish.
 *
 * @throws {IngestError} `invalid-argument`
 */
export function parseQuery<Name extends string>(query: string, names: readonly Name[]): Partial<Record<Name, string>> {
  const values: Partial<Record<Name, string>> = {}
  for (const [key, value] of new URLSearchParams(query)) {
    const name = names.find((each) => each === key)
    if (name === undefined) {
      const known = names.length === 0 ? 'none' : `only ${names.join(', ')}`
      throw new IngestError('invalid-argument', `The query has an unknown parameter; this path takes ${known}.`)
    }
    if (values[name] !== undefined)
      throw new IngestError('invalid-argument', `The query repeats the parameter ${name}.`)
    values[name] = value
  }
  return values
}

/** Maximum duration of a long poll, in seconds. */
export const waitSecondsMax = 60

/**
 * Parses whole seconds, at most {@link waitSecondsMax}.
 *
 * @throws {IngestError} `invalid-argument`
 */
export function parseWait(value: string | undefined): { waitMs?: number } {
  if (value === undefined) return {}
  const seconds = /^\d{1,2}$/.test(value) ? Number(value) : Number.POSITIVE_INFINITY
  if (seconds <= waitSecondsMax) return { waitMs: seconds * 1000 }
  throw new IngestError('invalid-argument', `wait must be a whole number of seconds from 0 to ${waitSecondsMax}.`, {
    limit: waitSecondsMax,
  })
}

/**
 * Parses a time; returns milliseconds since 1970.
 *
 * @throws {IngestError} `invalid-argument`
 */
export function parseTimeParameter<Name extends string>(
  name: Name,
  value: string | undefined,
): Partial<Record<Name, number>> {
  if (value === undefined) return {}
  // decoding turns the plus of an unescaped zone into a space
  const time = parseTime(value.replace(' ', '+'))
  if (time !== undefined) return { [name]: time } as Record<Name, number>
  throw new IngestError('invalid-argument', `${name} must be an RFC 3339 time with a zone, or milliseconds since 1970.`)
}

/**
 * Parses a whole number from 1 to `max`.
 *
 * @throws {IngestError} `invalid-argument`
 */
export function parseLimit(value: string | undefined, max: number): { limit?: number } {
  if (value === undefined) return {}
  const limit = /^\d{1,9}$/.test(value) ? Number(value) : 0
  if (limit >= 1 && limit <= max) return { limit }
  throw new IngestError('invalid-argument', `limit must be a whole number from 1 to ${max}.`, { limit: max })
}
