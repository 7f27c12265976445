/** What an event id is found by: exact, and half as long for a UUID in lower case. */
export function eventKey(eventId: string): Buffer {
  if (eventId.length !== uuidLength || !uuidPattern.test(eventId)) return Buffer.from(`\x02${eventId}`)
  const key = Buffer.allocUnsafe(17)
  key[0] = 1
  key.write(eventId.replaceAll('-', ''), 1, 'hex')
  return key
}

const uuidLength = 36
const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
