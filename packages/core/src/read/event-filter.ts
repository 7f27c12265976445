import { IngestError } from '../error.ts'
import { type FilterName, filterNames, knownFields } from '../events/known-fields.ts'
import { parseKnownMembers } from '../events/parse-batch.ts'
import { backslash } from '../json/bytes.ts'

/** Selects events in which each given member has exactly this value. An integer matches its decimal digits. */
export type EventFilter = { [Name in FilterName]?: string }

/** Picks the filter from other options. */
export function filterOf(options: EventFilter): EventFilter {
  const filter: EventFilter = {}
  for (const name of filterNames) if (options[name] !== undefined) filter[name] = options[name]
  return filter
}

/**
 * Checks a filter from JavaScript.
 *
 * @throws {IngestError} `invalid-argument`
 */
export function checkEventFilter(options: EventFilter): void {
  for (const [name, value] of Object.entries<unknown>(filterOf(options))) {
    if (typeof value === 'string' && value !== '') continue
    throw new IngestError('invalid-argument', `${name} must be a string that is not empty.`)
  }
}

const integerNames = new Set(knownFields.filter(({ integerMin }) => integerMin !== undefined).map(({ name }) => name))
const integer = /^-?\d+$/
/** A number such as 1e3, which is not written in decimal digits. */
const exponential = /:\s*-?[\d.]+e/i

/** A predicate over the bytes of an event; undefined for an empty filter. */
export function compileEventFilter(options: EventFilter): ((bytes: Uint8Array) => boolean) | undefined {
  const wanted = Object.entries(filterOf(options)).map(([name, value]) => {
    const isInteger = integerNames.has(name) && integer.test(value)
    return { name, value, isInteger, text: Buffer.from(isInteger ? value : `"${value}"`) }
  })
  if (wanted.length === 0) return undefined

  return ({ buffer, byteOffset, length }) => {
    const event = Buffer.from(buffer, byteOffset, length)
    // JSON without escapes contains the wanted values verbatim, so most events need no parsing
    const isExcluded = wanted.some(
      ({ text, isInteger }) => !event.includes(text) && !(isInteger && exponential.test(event.toString('latin1'))),
    )
    if (isExcluded && !event.includes(backslash)) return false
    const members = parseKnownMembers(event)
    return wanted.every(({ name, value, isInteger }) => {
      const member = members[name]
      return member === value || (isInteger && typeof member === 'number' && String(member) === value)
    })
  }
}
