import { colon, digit0, lowerT, lowerZ, minus, plus, point, quote } from '../src/json/bytes.ts'
import { byteAt } from './text.ts'
import { endOfDigits } from './value.ts'

/** The end of a JSON string, without escapes, that is an RFC 3339 time with a zone: section 5.6, ranges of 5.7. */
export function endOfTime(at: usize): usize {
  if (byteAt(at) !== quote || !isToTheMinute(at + 1) || byteAt(at + 17) !== colon) return 0
  // leap seconds are not checked against their announced dates
  if (digitPair(at + 18) > 60) return 0
  at += 20
  if (byteAt(at) === point) at = endOfDigits(at + 1)
  at = endOfZone(at)
  return byteAt(at) === quote ? at + 1 : 0
}

/** Whether there is a date, a T, hours and minutes. */
function isToTheMinute(at: usize): bool {
  // 0000-00-00?00:00, and by how much each byte may exceed it
  const least = i8x16(48, 48, 48, 48, 45, 48, 48, 45, 48, 48, 0, 48, 48, 58, 48, 48)
  const excess = i8x16(9, 9, 9, 9, 0, 1, 9, 0, 3, 9, 127, 2, 9, 0, 5, 9)
  if (!i8x16.all_true(i8x16.le_u(i8x16.sub(v128.load(at), least), excess))) return false
  if ((byteAt(at + 10) | 0x20) !== lowerT || digitPair(at + 11) > 23) return false
  const month = digitPair(at + 5)
  const day = digitPair(at + 8)
  return month - 1 < 12 && day - 1 < 31 && (day <= 28 || day <= daysIn(month, at))
}

/** The days of a month of the year whose four digits are at `year`. */
function daysIn(month: u32, year: usize): u32 {
  // 31 in January, and in August again
  if (month !== 2) return 30 + ((month + (month >>> 3)) & 1)
  const ofCentury = digitPair(year + 2)
  const isLeap = ofCentury === 0 ? digitPair(year) % 4 === 0 : ofCentury % 4 === 0
  return isLeap ? 29 : 28
}

/** The end of a `Z` or a numeric offset. */
function endOfZone(at: usize): usize {
  const byte = byteAt(at)
  if ((byte | 0x20) === lowerZ) return at + 1
  if (byte !== plus && byte !== minus) return 0
  return digitPair(at + 1) <= 23 && byteAt(at + 3) === colon && digitPair(at + 4) <= 59 ? at + 6 : 0
}

/** The number that two digits represent; over 99 if they are not digits. */
function digitPair(at: usize): u32 {
  const tens = u32(byteAt(at)) - digit0
  const units = u32(byteAt(at + 1)) - digit0
  return tens <= 9 && units <= 9 ? 10 * tens + units : u32.MAX_VALUE
}
