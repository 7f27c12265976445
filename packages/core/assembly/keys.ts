// Most events of a batch have the same keys in the same order. So the start of each member, such as `,"type":`, is kept
// by its position in the event, and compared with the next event. That is faster than searching for the end of the key,
// because the processor predicts a match and reads on while it compares.

/** The bytes of an entry: 16 expected bytes, a bit for each that does not count, how many count, and the field. */
const entryBytes: usize = 32
const ignoredAt: usize = 16
const countAt: usize = 20
const fieldAt: usize = 24
const entriesMax: usize = 64

/** The entry after `entry` in the table at `start`; the last one serves all further members. */
@inline
export function nextEntry(entry: usize, start: usize): usize {
  return entry === start + (entriesMax - 1) * entryBytes ? entry : entry + entryBytes
}

/** Whether the member at `at`, which starts with its brace or comma, begins as `entry` expects. False if unused. */
@inline
export function isExpected(entry: usize, at: usize): bool {
  return (i8x16.bitmask(i8x16.eq(v128.load(at), v128.load(entry))) | load<i32>(entry, ignoredAt)) === 0xffff
}

@inline
export function expectedBytes(entry: usize): usize {
  return load<u32>(entry, countAt)
}

@inline
export function expectedField(entry: usize): u32 {
  return load<u32>(entry, fieldAt)
}

/** Makes the bytes from `start` to `end` the expected start of a member of this field, if they fit into the entry. */
export function setExpected(entry: usize, start: usize, end: usize, field: u32): void {
  const bytes = u32(end - start)
  if (bytes > 16) return
  v128.store(entry, v128.load(start))
  store<u32>(entry, (0xffff << bytes) & 0xffff, ignoredAt)
  store<u32>(entry, bytes, countAt)
  store<u32>(entry, field, fieldAt)
}
