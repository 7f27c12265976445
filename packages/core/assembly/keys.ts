// Events of a batch mostly have the same keys in the same order. What begins a member, such as `,"type":`, is therefore
// remembered by its number in the event, and compared as a whole: this takes less time than finding the end of the key.
// The processor goes on behind the expected end while it compares.

// An entry: 16 bytes, a bit for each of them that does not count, how many count, and the field.
const ignored: usize = 16
const length: usize = 20
const field: usize = 24

/** Whether the member at `at` begins as `entry` says. */
@inline
export function isExpected(entry: usize, at: usize): bool {
  return (i8x16.bitmask(i8x16.eq(v128.load(at), v128.load(entry))) | load<u32>(entry, ignored)) === 0xffff
}

@inline
export function expectedBytes(entry: usize): usize {
  return load<u32>(entry, length)
}

@inline
export function expectedField(entry: usize): u32 {
  return load<u32>(entry, field)
}

/** Expects what is between `start` and `end`, if that is short enough. */
export function expect(entry: usize, start: usize, end: usize, ofField: u32): void {
  const bytes = end - start
  if (bytes > 16) return
  v128.store(entry, v128.load(start))
  store<u32>(entry, (0xffff << u32(bytes)) & 0xffff, ignored)
  store<u32>(entry, bytes, length)
  store<u32>(entry, ofField, field)
}
