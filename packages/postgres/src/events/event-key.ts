/** The key by which an event id is found: exact, and half as long for a lower-case UUID. */
export function eventKey(eventId: string): Buffer {
  const json = Buffer.from(JSON.stringify(eventId))
  const key = Buffer.allocUnsafe(json.length)
  return key.subarray(0, writeEventKey(key, 0, { body: json, start: 0, end: json.length }))
}

/**
 * Writes the key of an id, given as the JSON string from `start` to `end` of a body, without creating a string for a
 * UUID. Returns where the key ends; it is shorter than the JSON string.
 */
export function writeEventKey(
  out: Buffer,
  at: number,
  { body, start, end }: { body: Buffer; start: number; end: number },
): number {
  if (end - start === uuidBytes + 2 && writeUuid(out, at + 1, body, start + 1)) {
    out[at] = 1
    return at + uuidKeyBytes
  }
  const id = Buffer.from(JSON.parse(body.toString('utf8', start, end)))
  // even a UUID may be written with escapes
  if (id.length === uuidBytes && writeUuid(out, at + 1, id, 0)) {
    out[at] = 1
    return at + uuidKeyBytes
  }
  out[at] = 2
  // escapes are longer than the characters they encode
  return at + 1 + id.copy(out, at + 1)
}

const uuidBytes = 36
const uuidKeyBytes = 17
/** Offset of the two digits of each byte of a UUID. */
const digitsAt = Uint8Array.of(0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34)
const dash = 0x2d
const notADigit = 0xff
const digitValues = new Uint8Array(256).fill(notADigit)
for (let value = 0; value < 16; value++) digitValues[value.toString(16).charCodeAt(0)] = value

/** Returns false if the text is not a lower-case UUID. */
function writeUuid(out: Buffer, at: number, body: Buffer, start: number): boolean {
  for (let i = 8; i <= 23; i += 5) if (body[start + i] !== dash) return false
  for (let i = 0; i < digitsAt.length; i++) {
    const from = start + (digitsAt[i] as number)
    const high = digitValues[body[from] as number] as number
    const low = digitValues[body[from + 1] as number] as number
    if (high === notADigit || low === notADigit) return false
    out[at + i] = (high << 4) | low
  }
  return true
}
