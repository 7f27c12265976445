import { IngestError } from '@ingest/core'

/** The text of a JSON value inside a longer text: `source.subarray(start, end)`. It has not been validated. */
export interface SlicedValue {
  /** Its line number, from 1, or its index in the array, from 0. */
  at: number
  /** A chunk, or a copy of the value. */
  source: Buffer
  /** Start without surrounding whitespace. If the value is too long, only its beginning is kept. */
  start: number
  end: number
  isTooLong: boolean
}

/** Whether the values are lines or the elements of one array. */
export type ValueForm = 'lines' | 'array'

/** Slices a stream of text into its values. */
export interface ValueSlicer {
  /** Undefined until the input has a character that is not whitespace. */
  form(): ValueForm | undefined
  /**
   * Yields the values that end in this chunk.
   *
   * @throws {IngestError} `malformed-body`, after the values before the fault
   */
  push(chunk: Uint8Array): Iterable<SlicedValue>
  /**
   * Yields the last value.
   *
   * @throws {IngestError} `malformed-body` for an incomplete array
   */
  end(): Iterable<SlicedValue>
}

/** Maximum bytes of a value that are kept: an event is at most half of that, and its wrapping is short. */
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
const noBytes = Buffer.alloc(0)

/**
 * The first byte that is not whitespace decides: `[` starts an array, `{` starts lines. Empty lines are skipped. Memory
 * use is bounded by {@link valueBytesMax}, however long a value is.
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

    push({ buffer, byteOffset, length }) {
      const chunk = Buffer.from(buffer, byteOffset, length)
      const from = slicer ? 0 : start(chunk)
      return slicer?.push(chunk, from) ?? []
    },

    end() {
      const last = slicer?.end()
      return last ? [last] : []
    },
  }
}

/** A slicer for one form of input. */
interface FormSlicer {
  readonly form: ValueForm
  push(chunk: Buffer, from: number): Iterable<SlicedValue>
  /** The last value. */
  end(): SlicedValue | undefined
}

function sliceLines(firstLine: number): FormSlicer {
  const value = createValueBuffer()
  let line = firstLine
  return {
    form: 'lines',

    *push(chunk, from) {
      let start = from
      for (let end = chunk.indexOf(lineFeed, start); end !== -1; end = chunk.indexOf(lineFeed, start)) {
        const sliced = withoutMark(value.take(line++, { source: chunk, start, end }))
        start = end + 1
        if (sliced) yield sliced
      }
      value.keep(chunk.subarray(start))
    },

    end: () => withoutMark(value.take(line, { source: noBytes, start: 0, end: 0 })),
  }
}

/** In concatenated files, a later line may start with a byte order mark too. */
function withoutMark(value: SlicedValue | undefined): SlicedValue | undefined {
  if (!value || byteOrderMark.some((byte, i) => value.source[value.start + i] !== byte)) return value
  const start = value.start + byteOrderMark.length
  return start < value.end ? { ...value, start } : undefined
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

    *push(chunk, from) {
      let start = from
      for (let at = from; at < chunk.length; at++) {
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
          const sliced = value.take(count, { source: chunk, start, end: at })
          start = at + 1
          isOver = byte === closeBracket
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

type Range = Pick<SlicedValue, 'source' | 'start' | 'end'>

/** Collects the bytes of a value that spans several chunks. */
function createValueBuffer() {
  let parts: Uint8Array[] = []
  let size = 0

  function keep(part: Uint8Array): void {
    const capacity = valueBytesMax - size
    if (capacity > 0 && part.length > 0) parts.push(part.subarray(0, capacity))
    size += part.length
  }

  /** The value that ends with `last`. */
  function join({ source, start, end }: Range): Range {
    keep(source.subarray(start, end))
    const joined = Buffer.concat(parts)
    parts = []
    size = 0
    return { source: joined, start: 0, end: joined.length }
  }

  return {
    keep,
    /** The value that ends with this range of a chunk; undefined if it is empty. */
    take(at: number, last: Range): SlicedValue | undefined {
      const isTooLong = size + last.end - last.start > valueBytesMax
      const { source, start: from, end: to } = size === 0 ? last : join(last)
      let start = from
      let end = Math.min(to, from + valueBytesMax)
      while (start < end && isSpace(source[start] as number)) start++
      while (start < end && isSpace(source[end - 1] as number)) end--
      // the kept beginning of a value that is too long may be only whitespace
      return start < end || isTooLong ? { at, source, start, end, isTooLong } : undefined
    },
  }
}

/** Whether a byte is whitespace in JSON (RFC 8259 section 2). */
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
