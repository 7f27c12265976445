import { IngestError } from '@ingest/core'

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
