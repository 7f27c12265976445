import type { Event } from '@ingest/core'

/**
 * The text of an event, of which `given` is the value, with those of the members that it lacks in front of its own. All
 * else stays as it is, byte for byte.
 */
export function addMembers(text: Buffer, given: Event, members: Event): Buffer {
  const lacking = Object.entries(members).filter(([name]) => !Object.hasOwn(given, name))
  if (lacking.length === 0) return text
  const added = JSON.stringify(Object.fromEntries(lacking)).slice(0, -1)
  const isEmpty = Object.keys(given).length === 0
  return Buffer.concat([Buffer.from(isEmpty ? added : `${added},`), text.subarray(text.indexOf('{') + 1)])
}
