import { wellKnownOf } from './parse-batch.ts'

/** Which events are wanted: those for which each of these members is exactly this. */
export interface EventFilter {
  type?: string
  buildId?: string
}

const backslash = 0x5c

/** Whether an event, as its bytes, is wanted; undefined where every one is. */
export function compileEventFilter({ type, buildId }: EventFilter): ((bytes: Uint8Array) => boolean) | undefined {
  const wanted = Object.entries({ type, buildId }).filter(([, value]) => value !== undefined)
  if (wanted.length === 0) return undefined
  const texts = wanted.map(([, value]) => Buffer.from(`"${value}"`))
  return ({ buffer, byteOffset, length }) => {
    const event = Buffer.from(buffer, byteOffset, length)
    // JSON without an escape has its texts as they are, so most of what is not wanted need not be parsed
    if (!texts.every((text) => event.includes(text)) && !event.includes(backslash)) return false
    const members = wellKnownOf(event)
    return wanted.every(([name, value]) => members[name] === value)
  }
}
