import { IngestError } from '../error.ts'
import { type IssueCode, pointer } from '../validation.ts'

/** The deepest nesting of a map. */
export const mapDepthMax = 512

/**
 * A JSON value as its canonical bytes: RFC 8785, so that the same value is the same bytes whoever wrote it down. Members
 * that are undefined are left out, as JSON.stringify does; `path` is where the value stands, for the issues.
 *
 * @throws {IngestError} `invalid-publication` for what has no canonical bytes: a number that is not finite (as 1e400
 *   reads), a lone surrogate, what is no JSON, and what nests too deep.
 */
export function canonicalJson(value: unknown, path = ''): Buffer {
  return Buffer.from(textOf(value, path, mapDepthMax))
}

function textOf(value: unknown, path: string, levels: number): string {
  if (value === null || typeof value === 'boolean') return String(value)
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw invalid('out_of_range', path, 'Expected a number that a double can hold.')
    // section 3.2.2.3: as ECMAScript writes it, so that -0 is 0
    return String(value)
  }
  if (typeof value === 'string') return quoted(value, path)
  if (levels === 0) throw invalid('too_deep', path, `Expected at most ${mapDepthMax} levels of nesting.`)
  if (Array.isArray(value)) {
    return `[${Array.from(value, (item, i) => textOf(item, pointer(path, i), levels - 1)).join(',')}]`
  }
  if (!isPlain(value)) throw invalid('invalid_type', path, 'Expected a JSON value.')
  const members: string[] = []
  // section 3.2.3: by UTF-16 code units, which is how JavaScript compares strings
  for (const name of Object.keys(value).sort()) {
    const member = value[name]
    if (member === undefined) continue
    const at = pointer(path, name)
    members.push(`${quoted(name, at)}:${textOf(member, at, levels - 1)}`)
  }
  return `{${members.join(',')}}`
}

/** Section 3.2.2.2 is what JSON.stringify does, but for lone surrogates, which it escapes. */
function quoted(text: string, path: string): string {
  if (!text.isWellFormed()) throw invalid('invalid_format', path, 'Expected no lone surrogates.')
  return JSON.stringify(text)
}

/** A Date, a Map or a Buffer would silently become something else. */
function isPlain(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false
  const prototype = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

function invalid(code: IssueCode, path: string, message: string): IngestError {
  return new IngestError('invalid-publication', `The map cannot be kept: ${message}`, {
    issues: [{ code, path, message }],
  })
}
