import { IngestError } from '@ingest/core'
import { parseTime } from '@ingest/core/internal'

/**
 * The parameters of a query. One that is unknown, or comes twice, is refused: a misspelt `dryRun` would publish.
 *
 * @throws {IngestError} `invalid-argument`
 */
export function parseQuery<Name extends string>(query: string, names: readonly Name[]): Partial<Record<Name, string>> {
  const values: Partial<Record<Name, string>> = {}
  for (const [key, value] of new URLSearchParams(query)) {
    const name = names.find((each) => each === key)
    if (name === undefined) {
      const known = names.length === 0 ? 'none' : `only ${names.join(', ')}`
      throw new IngestError(
        'invalid-argument',
        `The query has a parameter that is not known here, which takes ${known}.`,
      )
    }
    if (values[name] !== undefined) throw new IngestError('invalid-argument', `The query has ${name} more than once.`)
    values[name] = value
  }
  return values
}

/** The longest that an answer is held back, in seconds. */
export const waitSecondsMax = 60

/**
 * How long an answer may be held back, in milliseconds, of a text that says so in whole seconds.
 *
 * @throws {IngestError} `invalid-argument`
 */
export function parseWait(value: string | undefined): number | undefined {
  if (value === undefined) return undefined
  const seconds = /^\d{1,2}$/.test(value) ? Number(value) : Number.POSITIVE_INFINITY
  if (seconds <= waitSecondsMax) return seconds * 1000
  throw new IngestError('invalid-argument', `wait is a whole number of seconds from 0 to ${waitSecondsMax}.`, {
    limit: waitSecondsMax,
  })
}

/**
 * A time, in milliseconds since 1970.
 *
 * @throws {IngestError} `invalid-argument`
 */
export function parseTimeOf(name: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined
  // the plus of a zone is a space to those who decode a query, and few remember to escape it
  const time = parseTime(value.replace(' ', '+'))
  if (time !== undefined) return time
  throw new IngestError('invalid-argument', `${name} is an RFC 3339 time with a zone, or milliseconds since 1970.`)
}

/**
 * A whole number from 1 to `max`; undefined when there is none.
 *
 * @throws {IngestError} `invalid-argument`
 */
export function parseLimit(value: string | undefined, max: number): number | undefined {
  if (value === undefined) return undefined
  const limit = /^\d{1,9}$/.test(value) ? Number(value) : 0
  if (limit >= 1 && limit <= max) return limit
  throw new IngestError('invalid-argument', `limit is a whole number from 1 to ${max}.`, { limit: max })
}
