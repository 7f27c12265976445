import { formatPointer, parsePointer } from '../json-pointer.ts'
import {
  closing,
  cutString,
  type Extent,
  measureValue,
  NotJson,
  openBrace,
  openBracket,
  quote,
  skipName,
  skipSpace,
  skipString,
} from './json-bytes.ts'

export type JsonType = 'object' | 'array' | 'string' | 'number' | 'boolean' | 'null'

/** A value of a document, as a tree shows it. */
export interface JsonValue {
  /** Where it begins in the document, which no other value does. */
  at: number
  /** Where its name begins; undefined for elements and for the whole document. */
  nameAt: number | undefined
  /** Undefined for elements and for the whole document. */
  name: CutText | undefined
  type: JsonType
  bytes: number
  /** Members or elements. */
  count: number
  /** The text of a string, the spelling of a number or a literal; empty for the others. */
  text: CutText
}

/** The beginning of a text, all of it unless `isCut`. */
export interface CutText {
  text: string
  isCut: boolean
}

/** A member or an element on the way to a value. */
export interface JsonStep {
  /** The position among the members or elements. */
  index: number
  /** As in JsonValue. */
  nameAt: number | undefined
}

/** A valid document. */
export interface JsonDocument {
  bytes: Uint8Array
  root: number
  /** Of large values, so that they are not scanned again. */
  extents: Map<number, Extent>
  /** Where every hundredth member or element begins, as far as they were read, by the start of their container. */
  marks: Map<number, number[]>
}

/** How many members or elements are shown at a time. */
export const sliceLength = 100
const nameCharactersMax = 100
const textCharactersMax = 200
/** The most characters that are shown of one string. */
const textCharactersLimit = 100_000
const largeBytes = 65_536

/**
 * Checks that the bytes are JSON in UTF-8.
 *
 * @throws {NotJson}
 */
export function openDocument(bytes: Uint8Array): JsonDocument {
  const hasMark = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf
  const root = skipSpace(bytes, hasMark ? 3 : 0)
  const extent = measureValue(bytes, root)
  const end = skipSpace(bytes, extent.end)
  if (end < bytes.length) throw new NotJson(end)
  checkUtf8(bytes)
  return { bytes, root, extents: new Map([[root, extent]]), marks: new Map() }
}

const utf8BlockBytes = 1 << 20

function checkUtf8(bytes: Uint8Array): void {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  for (let at = 0; at < bytes.length; at += utf8BlockBytes) {
    try {
      decoder.decode(bytes.subarray(at, at + utf8BlockBytes), { stream: at + utf8BlockBytes < bytes.length })
    } catch {
      throw new NotJson(findNotUtf8(bytes, at))
    }
  }
}

/** The first byte that is not UTF-8, in the block that begins at `from`, which may be within a character. */
function findNotUtf8(bytes: Uint8Array, from: number): number {
  const start = Math.max(0, from - 3)
  let low = from
  let high = Math.min(bytes.length, from + utf8BlockBytes)
  while (low < high) {
    const middle = (low + high) >> 1
    if (isUtf8Start(bytes.subarray(startOfCharacter(bytes, start), middle + 1))) low = middle + 1
    else high = middle
  }
  return low
}

function startOfCharacter(bytes: Uint8Array, from: number): number {
  let at = from
  while (((bytes[at] as number) & 0xc0) === 0x80) at++
  return at
}

function isUtf8Start(bytes: Uint8Array): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true })
    return true
  } catch {
    return false
  }
}

export function readRoot(document: JsonDocument): JsonValue {
  return readValue(document, document.root, undefined)
}

/** The members or elements of the container at `at`: `count` of them from position `from` on, or fewer at its end. */
export function readChildren(document: JsonDocument, at: number, from: number, count = sliceLength): JsonValue[] {
  const children: JsonValue[] = []
  walk(document, at, from, (index, valueAt, nameAt) => {
    children.push(readValue(document, valueAt, nameAt))
    return index + 1 < from + count
  })
  return children
}

type Visit = (index: number, valueAt: number, nameAt: number | undefined) => boolean

/** Visits the members or elements from position `from` on, until a visit returns false. */
function walk(document: JsonDocument, container: number, from: number, visit: Visit): void {
  const { bytes } = document
  const opening = bytes[container] as number
  const first = skipSpace(bytes, container + 1)
  if (bytes[first] === closing(opening)) return
  const marks = document.marks.get(container) ?? [first]
  document.marks.set(container, marks)
  const mark = Math.min(Math.floor(from / sliceLength), marks.length - 1)
  let at = marks[mark] as number
  for (let index = mark * sliceLength; ; index++) {
    if (index % sliceLength === 0) marks[index / sliceLength] = at
    const nameAt = opening === openBrace ? at : undefined
    const valueAt = nameAt === undefined ? at : skipName(bytes, at)
    if (index >= from && !visit(index, valueAt, nameAt)) return
    at = skipSpace(bytes, extentOf(document, valueAt).end)
    if (bytes[at] === closing(opening)) return
    at = skipSpace(bytes, at + 1)
  }
}

function extentOf({ bytes, extents }: JsonDocument, at: number): Extent {
  const known = extents.get(at)
  if (known) return known
  const extent = measureValue(bytes, at)
  if (extent.end - at >= largeBytes) extents.set(at, extent)
  return extent
}

function readValue(document: JsonDocument, at: number, nameAt: number | undefined): JsonValue {
  const { end, count } = extentOf(document, at)
  const name = nameAt === undefined ? undefined : readString(document, nameAt, nameCharactersMax)
  const text = readText(document, at, textCharactersMax)
  return { at, nameAt, name, type: typeAt(document, at), bytes: end - at, count, text }
}

function typeAt({ bytes }: JsonDocument, at: number): JsonType {
  switch (bytes[at]) {
    case openBrace:
      return 'object'
    case openBracket:
      return 'array'
    case quote:
      return 'string'
    case 0x74:
    case 0x66:
      return 'boolean'
    case 0x6e:
      return 'null'
    default:
      return 'number'
  }
}

/** The text of a string, the spelling of a number or a literal; empty for the others. */
export function readText(document: JsonDocument, at: number, charactersMax = textCharactersLimit): CutText {
  const first = document.bytes[at]
  if (first === quote) return readString(document, at, charactersMax)
  if (first === openBrace || first === openBracket) return { text: '', isCut: false }
  const { end } = extentOf(document, at)
  return { text: decode(document, at, Math.min(end, at + charactersMax)), isCut: end > at + charactersMax }
}

function readString(document: JsonDocument, at: number, charactersMax: number): CutText {
  const end = cutString(document.bytes, at, charactersMax)
  return { text: JSON.parse(`${decode(document, at, end)}"`) as string, isCut: document.bytes[end] !== quote }
}

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

function decode({ bytes }: JsonDocument, start: number, end: number): string {
  return decoder.decode(bytes.subarray(start, end))
}

function readName(document: JsonDocument, at: number): string {
  return JSON.parse(decode(document, at, skipString(document.bytes, at))) as string
}

/** The JSON Pointer (RFC 6901) of a value. */
export function readPointer(document: JsonDocument, steps: readonly JsonStep[]): string {
  const tokenOf = ({ index, nameAt }: JsonStep) => (nameAt === undefined ? String(index) : readName(document, nameAt))
  return formatPointer(steps.map(tokenOf))
}

/** The positions of the members and elements on the way to the value of a JSON Pointer; undefined if it has none. */
export function findPointer(document: JsonDocument, pointer: string): number[] | undefined {
  const tokens = parsePointer(pointer)
  if (!tokens) return undefined
  const path: number[] = []
  let at = document.root
  for (const token of tokens) {
    const child = findChild(document, at, token)
    if (!child) return undefined
    path.push(child.index)
    at = child.at
  }
  return path
}

function findChild(document: JsonDocument, at: number, token: string): { index: number; at: number } | undefined {
  let found: { index: number; at: number } | undefined
  const type = typeAt(document, at)
  if (type === 'array') {
    if (/^(0|[1-9]\d*)$/.test(token)) {
      walk(document, at, Number(token), (index, valueAt) => {
        found = { index, at: valueAt }
        return false
      })
    }
  } else if (type === 'object') {
    walk(document, at, 0, (index, valueAt, nameAt) => {
      // the last of several members of one name counts, as for JSON.parse
      if (readName(document, nameAt as number) === token) found = { index, at: valueAt }
      return true
    })
  }
  return found
}

/** What stands around a position, to show what is not JSON there. */
export function excerptAround(bytes: Uint8Array, at: number): string {
  return new TextDecoder().decode(bytes.subarray(Math.max(0, at - 40), at + 40))
}
