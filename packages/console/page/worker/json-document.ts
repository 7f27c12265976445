import { formatPointer, parsePointer, resolvePointer } from '../json-pointer.ts'

export type JsonType = 'object' | 'array' | 'string' | 'number' | 'boolean' | 'null'

/** A value of a document, as the tree shows it. */
export interface JsonValue {
  /** Its JSON Pointer (RFC 6901), which identifies it. */
  pointer: string
  /** Undefined for elements and for the whole document. */
  name: CutText | undefined
  type: JsonType
  /** Members or elements. */
  count: number
  /** A string, a number or a literal; empty for the others. */
  text: CutText
}

/** The beginning of a text, all of it unless `isCut`. */
export interface CutText {
  text: string
  isCut: boolean
}

/** How many members or elements the tree loads at a time. */
export const sliceLength = 100
const nameCharactersMax = 100
const textCharactersMax = 200
/** The most characters that are shown of one string. */
const textCharactersLimit = 100_000

export function readValue(document: unknown, pointer = '', charactersMax = textCharactersMax): JsonValue {
  const value = resolvePointer(document, parsePointer(pointer) ?? [])
  const type = typeOf(value)
  const isContainer = type === 'object' || type === 'array'
  const members = Array.isArray(value) ? value : Object.keys(isContainer ? (value as object) : {})
  return {
    pointer,
    name: undefined,
    type,
    count: members.length,
    text: cut(isContainer ? '' : String(value), charactersMax),
  }
}

/** `sliceLength` members or elements of a value from position `from` on, or fewer at its end. */
export function readChildren(document: unknown, pointer: string, from: number): JsonValue[] {
  const value = resolvePointer(document, parsePointer(pointer) ?? [])
  const child = (name: string) => readValue(document, pointer + formatPointer([name]))
  if (Array.isArray(value)) {
    return value.slice(from, from + sliceLength).map((_, index) => child(String(from + index)))
  }
  const names = Object.keys(value as object).slice(from, from + sliceLength)
  return names.map((name) => ({ ...child(name), name: cut(name, nameCharactersMax) }))
}

/** The text of a scalar, up to 100,000 characters. */
export function readText(document: unknown, pointer: string): CutText {
  return readValue(document, pointer, textCharactersLimit).text
}

/** The positions of the members and elements on the way to the value of a JSON Pointer; undefined if it has none. */
export function findPointer(document: unknown, pointer: string): number[] | undefined {
  const tokens = parsePointer(pointer)
  if (!tokens || resolvePointer(document, tokens) === undefined) return undefined
  let value = document
  return tokens.map((token) => {
    const index = Array.isArray(value) ? Number(token) : Object.keys(value as object).indexOf(token)
    value = resolvePointer(value, [token])
    return index
  })
}

function typeOf(value: unknown): JsonType {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : (typeof value as JsonType)
}

/** Cuts between characters, also those of two UTF-16 units. */
function cut(text: string, charactersMax: number): CutText {
  if (text.length <= charactersMax) return { text, isCut: false }
  return { text: text.slice(0, charactersMax).replace(/[\ud800-\udbff]$/, ''), isCut: true }
}
