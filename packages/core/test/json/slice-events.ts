import { isKey, type Slice, skipElements, skipMembers, skipSpace, skipValue } from '../../src/json/json-scanner.ts'

const openBracket = 0x5b

/** The range of each element of the array `events` of a JSON object. The last member of that name wins. */
export function sliceEvents(body: Uint8Array): Slice[] {
  let slices: Slice[] = []
  skipMembers(body, skipSpace(body, 0), (keyStart, keyEnd, valueStart) => {
    if (!isKey(body, keyStart, keyEnd, 'events')) return skipValue(body, valueStart)
    slices = []
    if (body[valueStart] !== openBracket) return skipValue(body, valueStart)
    return skipElements(body, valueStart, (start) => {
      const end = skipValue(body, start)
      slices.push({ start, end })
      return end
    })
  })
  return slices
}
