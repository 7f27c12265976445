import { grow } from './columns.ts'

/** Many short texts, packed as UTF-8 without an object for each. */
interface Texts {
  add(text: string): void
  get(index: number): string
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()

export function createTexts(): Texts {
  let bytes = new Uint8Array(65_536)
  let ends = new Uint32Array(1_024)
  let length = 0
  let end = 0
  return {
    add(text) {
      // at most three bytes per UTF-16 code unit
      bytes = grow(bytes, end + 3 * text.length)
      ends = grow(ends, length + 1)
      end += encoder.encodeInto(text, bytes.subarray(end)).written
      ends[length++] = end
    },
    get: (index) => decoder.decode(bytes.subarray(index === 0 ? 0 : ends[index - 1], ends[index])),
  }
}
