import { IngestError } from '@ingest/core'

/** The text of a JSON value inside a longer text; it has not been validated. */
export interface SlicedValue {
  /** Its line number, from 1, or its index in the array, from 0. */
  at: number
  /** Without surrounding whitespace; only the start of a value that is too long. */
  bytes: Buffer
  isTooLong: boolean
}

/** Whether the values are lines, or the elements of one array. */
export type ValueForm = 'lines' | 'array'

/** Slices a stream of text into its values. */
export interface ValueSlicer {
  /** Undefined while the input has only had whitespace. */
  form(): ValueForm | undefined
  /**
   * Yields the values that end in this chunk, as views of it.
   *
   * @throws {IngestError} `malformed-body`, after the values before the fault
   */
  push(chunk: Uint8Array): Generator<SlicedValue, void>
  /**
   * Yields the last value.
   *
   * @throws {IngestError} `malformed-body` for an incomplete array
   */
  end(): Generator<SlicedValue, void>
}

/** How much of a value is kept: an event is at most half of it, and little more can wrap the event. */
export const valueBytesMax = 512 * 1024

const byteOrderMark = [0xef, 0xbb, 0xbf]
const lineFeed = 0x0a
const quote = 0x22
const comma = 0x2c
const openBracket = 0x5b
const backslash = 0x5c
const closeBracket = 0x5d
const openBrace = 0x7b
const closeBrace = 0x7d
/** The first byte of a gzip file (RFC 1952 section 2.3.1). */
const gzipStart = 0x1f

/**
 * The first byte that is not whitespace decides: `[` starts an array, `{` starts lines. Empty lines are skipped. Memory is
 * bounded by {@link valueBytesMax}, whatever the length of a value.
 */
export function createValueSlicer(): ValueSlicer {
  let skippedBytes = 0
  let line = 1
  let slicer: FormSlicer | undefined

  /** Skips whitespace and a byte order mark; returns the offset of the first value. */
  function start(chunk: Uint8Array): number {
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at] as number
      if (isSpace(byte) || byte === byteOrderMark[skippedBytes]) {
        skippedBytes++
        if (byte === lineFeed) line++
        continue
      }
      if (byte !== openBracket && byte !== openBrace) throw unknownForm(byte)
      slicer = byte === openBracket ? sliceElements() : sliceLines(line)
      return byte === openBracket ? at + 1 : at
    }
    return chunk.length
  }

  return {
    form: () => slicer?.form,

    *push(chunk) {
      const from = slicer ? 0 : start(chunk)
      if (slicer) yield* slicer.push(chunk.subarray(from))
    },

    *end() {
      const last = slicer?.end()
      if (last) yield last
    },
  }
}

/** A slicer for one form of input. */
interface FormSlicer {
  readonly form: ValueForm
  push: ValueSlicer['push']
  /** The last value. */
  end(): SlicedValue | undefined
}

function sliceLines(firstLine: number): FormSlicer {
  const value = createValueBuffer()
  let line = firstLine
  return {
    form: 'lines',

    *push(chunk) {
      let start = 0
      for (let end = chunk.indexOf(lineFeed); end !== -1; end = chunk.indexOf(lineFeed, start)) {
        value.keep(chunk.subarray(start, end))
        start = end + 1
        const sliced = value.take(line++)
        if (sliced) yield sliced
      }
      value.keep(chunk.subarray(start))
    },

    end: () => value.take(line),
  }
}

function sliceElements(): FormSlicer {
  const value = createValueBuffer()
  let count = 0
  let depth = 0
  let isString = false
  let isEscaped = false
  let isOver = false
  return {
    form: 'array',

    *push(chunk) {
      let start = 0
      for (let at = 0; at < chunk.length; at++) {
        const byte = chunk[at] as number
        if (isOver) {
          if (!isSpace(byte)) throw malformed('There is content after the array.')
        } else if (isString) {
          if (isEscaped) isEscaped = false
          else if (byte === backslash) isEscaped = true
          else if (byte === quote) isString = false
        } else if (byte === quote) isString = true
        else if (byte === openBrace || byte === openBracket) depth++
        else if (depth > 0) {
          if (byte === closeBrace || byte === closeBracket) depth--
        } else if (byte === comma || byte === closeBracket) {
          value.keep(chunk.subarray(start, at))
          start = at + 1
          isOver = byte === closeBracket
          const sliced = value.take(count)
          if (sliced) yield sliced
          else if (!(isOver && count === 0)) throw malformed(`Element ${count} of the array is empty.`)
          count++
        }
      }
      if (!isOver) value.keep(chunk.subarray(start))
    },

    end() {
      if (!isOver) throw malformed('The array has no end: the input may be truncated.')
      return undefined
    },
  }
}

/** Collects the bytes of the current value. */
function createValueBuffer() {
  let parts: Uint8Array[] = []
  let size = 0
  return {
    keep(part: Uint8Array): void {
      const capacity = valueBytesMax - size
      if (capacity > 0 && part.length > 0) parts.push(part.subarray(0, capacity))
      size += part.length
    },
    /** Undefined for a value without bytes. */
    take(at: number): SlicedValue | undefined {
      const bytes = trim(parts)
      const isTooLong = size > valueBytesMax
      parts = []
      size = 0
      // the kept start of a value that is too long may be whitespace only
      return bytes.length > 0 || isTooLong ? { at, bytes, isTooLong } : undefined
    },
  }
}

function trim(parts: readonly Uint8Array[]): Buffer {
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

function unknownForm(byte: number): IngestError {
  const hint = byte === gzipStart ? ' It seems to be compressed: decompress it first.' : ''
  return malformed(`The input is neither lines of JSON objects nor an array of them.${hint}`)
}

function malformed(message: string): IngestError {
  return new IngestError('malformed-body', message)
}
