import { IngestError, type IssueCode } from '../error.ts'
import { pointerOf } from '../validation.ts'

/** Maximum nesting depth of a map. */
export const mapDepthMax = 512

/**
 * A JSON value in the canonical form of RFC 8785: equal values have equal bytes. Undefined members are omitted, as by
 * `JSON.stringify`. `path` holds the reference tokens of the value's JSON Pointer, for issues.
 *
 * @throws {IngestError} `invalid-publication` for a number that is not finite (such as 1e400), a lone surrogate, a
 *   value that is not JSON, and more than 512 levels of nesting
 */
export function canonicalJson(value: unknown, path: readonly string[] = []): Buffer {
  return Buffer.from(serialize(value, [...path], mapDepthMax))
}

/** Mutates `path`: a pointer for each member would take most of the time. */
function serialize(value: unknown, path: (string | number)[], levels: number): string {
  if (value === null || typeof value === 'boolean') return String(value)
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw invalid('out_of_range', path, 'Expected a number that a double can hold.')
    // RFC 8785 section 3.2.2.3: as ECMAScript formats numbers; -0 is 0
    return String(value)
  }
  if (typeof value === 'string') return serializeString(value, path)
  if (levels === 0) throw invalid('too_deep', path, `Expected at most ${mapDepthMax} levels of nesting.`)
  if (Array.isArray(value)) {
    return `[${Array.from(value, (item, i) => serializeAt(i, item, path, levels)).join(',')}]`
  }
  if (!isPlain(value)) throw invalid('invalid_type', path, 'Expected a JSON value.')
  const members: string[] = []
  // RFC 8785 section 3.2.3: sorted by UTF-16 code units, as `sort` does
  for (const name of Object.keys(value).sort()) {
    const member = value[name]
    if (member === undefined) continue
    const key = name.isWellFormed() ? JSON.stringify(name) : serializeAt(name, name, path, levels)
    members.push(`${key}:${serializeAt(name, member, path, levels)}`)
  }
  return `{${members.join(',')}}`
}

function serializeAt(token: string | number, value: unknown, path: (string | number)[], levels: number): string {
  path.push(token)
  const text = serialize(value, path, levels - 1)
  path.pop()
  return text
}

/** RFC 8785 section 3.2.2.2. `JSON.stringify` does the same, except that it escapes lone surrogates. */
function serializeString(text: string, path: readonly (string | number)[]): string {
  if (!text.isWellFormed()) throw invalid('invalid_format', path, 'Expected no lone surrogates.')
  return JSON.stringify(text)
}

/** Excludes a Date, a Map or a Buffer, which `JSON.stringify` would change silently. */
function isPlain(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false
  const prototype = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

function invalid(code: IssueCode, path: readonly (string | number)[], message: string): IngestError {
  return new IngestError('invalid-publication', `The map cannot be stored: ${message}`, {
    issues: [{ code, path: path.length === 0 ? '' : pointerOf(path), message }],
  })
}
