import { IngestError } from '@ingest/core'

/** A value of JSON in a longer text, by its place alone: whether it is JSON is for others to say. */
export interface SlicedValue {
  /** The number of its line, from 1, or its place in the array, from 0. */
  at: number
  /** As it stands there, without the space around it; of one that is too long, only the beginning. */
  bytes: Buffer
  isTooLong: boolean
}

/** How the values stand: one a line, or in one array. */
export type ValueForm = 'lines' | 'array'

/** Cuts a text of any length, which comes in pieces, into its values. */
export interface ValueSlicer {
  /** Undefined until something else than space has come. */
  form(): ValueForm | undefined
  /**
   * The values that end in this piece, which must not be changed as long as they are in use.
   *
   * @throws {IngestError} `malformed-body`, behind the values before the fault
   */
  push(piece: Uint8Array): Generator<SlicedValue, void>
  /** The value that was still open; and the same refusal when there is no end. */
  end(): Generator<SlicedValue, void>
}

/** So much is kept of a value. An event is at most half of that, and little more may stand around it. */
export const valueBytesMax = 512 * 1024

const mark = [0xef, 0xbb, 0xbf]
const lineFeed = 0x0a
const quote = 0x22
const comma = 0x2c
const openBracket = 0x5b
const backslash = 0x5c
const closeBracket = 0x5d
const openBrace = 0x7b
const closeBrace = 0x7d
/** With which a file in gzip begins (RFC 1952 section 2.3.1). */
const gzipStart = 0x1f

/**
 * The first byte that is no space decides: `[` begins an array, and `{` the first of the lines. Lines that are empty
 * are passed over. Memory is bounded by {@link valueBytesMax}, however long a value is.
 */
export function createValueSlicer(): ValueSlicer {
  let form: ValueForm | undefined
  /** Bytes and lines that have come before the first value. */
  let skipped = 0
  let line = 1
  /** How many elements have ended. */
  let count = 0
  // the value that has begun
  let parts: Uint8Array[] = []
  let size = 0
  let depth = 0
  let isText = false
  let isEscaped = false
  let isOver = false

  function keep(part: Uint8Array): void {
    const room = valueBytesMax - size
    if (room > 0 && part.length > 0) parts.push(part.subarray(0, room))
    size += part.length
  }

  function finish(at: number): SlicedValue | undefined {
    const bytes = withoutSpace(parts)
    const isTooLong = size > valueBytesMax
    parts = []
    size = 0
    // of one that is too long, what is kept may be nothing but space
    return bytes.length > 0 || isTooLong ? { at, bytes, isTooLong } : undefined
  }

  /** Where the values begin in the first piece that is not just space. */
  function begin(piece: Uint8Array): number {
    for (let at = 0; at < piece.length; at++) {
      const byte = piece[at] as number
      if (isSpace(byte) || byte === mark[skipped]) {
        skipped++
        if (byte === lineFeed) line++
        continue
      }
      if (byte !== openBracket && byte !== openBrace) throw strange(byte)
      form = byte === openBracket ? 'array' : 'lines'
      return byte === openBracket ? at + 1 : at
    }
    return piece.length
  }

  function* pushLines(piece: Uint8Array, from: number): Generator<SlicedValue, void> {
    let start = from
    for (let end = piece.indexOf(lineFeed, start); end !== -1; end = piece.indexOf(lineFeed, start)) {
      keep(piece.subarray(start, end))
      start = end + 1
      const value = finish(line++)
      if (value) yield value
    }
    keep(piece.subarray(start))
  }

  function* pushElements(piece: Uint8Array, from: number): Generator<SlicedValue, void> {
    let start = from
    for (let at = from; at < piece.length; at++) {
      const byte = piece[at] as number
      if (isOver) {
        if (!isSpace(byte)) throw malformed('Something follows the array.')
      } else if (isText) {
        if (isEscaped) isEscaped = false
        else if (byte === backslash) isEscaped = true
        else if (byte === quote) isText = false
      } else if (byte === quote) isText = true
      else if (byte === openBrace || byte === openBracket) depth++
      else if (depth > 0) {
        if (byte === closeBrace || byte === closeBracket) depth--
      } else if (byte === comma || byte === closeBracket) {
        keep(piece.subarray(start, at))
        start = at + 1
        isOver = byte === closeBracket
        const value = finish(count)
        if (value) yield value
        else if (!(isOver && count === 0)) throw malformed(`Element ${count} of the array is empty.`)
        count++
      }
    }
    if (!isOver) keep(piece.subarray(start))
  }

  return {
    form: () => form,

    *push(piece) {
      const from = form === undefined ? begin(piece) : 0
      if (form !== undefined) yield* form === 'array' ? pushElements(piece, from) : pushLines(piece, from)
    },

    *end() {
      if (form === 'array' && !isOver) throw malformed('The array has no end: it may have been cut.')
      const value = form === 'lines' ? finish(line) : undefined
      if (value) yield value
    },
  }
}

function withoutSpace(parts: readonly Uint8Array[]): Buffer {
  const [first] = parts
  const bytes = parts.length === 1 && first ? asBuffer(first) : Buffer.concat(parts)
  let start = 0
  let end = bytes.length
  while (start < end && isSpace(bytes[start] as number)) start++
  while (start < end && isSpace(bytes[end - 1] as number)) end--
  return bytes.subarray(start, end)
}

function asBuffer({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, length)
}

/** RFC 8259 section 2. */
function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === lineFeed || byte === 0x0d || byte === 0x09
}

function strange(byte: number): IngestError {
  const hint = byte === gzipStart ? ' It seems to be compressed: uncompress it first.' : ''
  return malformed(`The input is neither lines of JSON objects nor an array of them.${hint}`)
}

function malformed(message: string): IngestError {
  return new IngestError('malformed-body', message)
}
