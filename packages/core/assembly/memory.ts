// The memory layout. The first KiB stays zero: position 0 means that reading failed, and reading from there fails again,
// so most functions need not check for it.

/** The key of the hashes of ids, 16 bytes. */
export const hashKeyStart: usize = 0x400
/** The project of the events, as a JSON string of at most 66 bytes. */
export const projectIdStart: usize = 0x410
/** The rows of at most 100 events, as `BatchEvents` of src/submit/batch-events.ts has them. */
export const rowsStart: usize = 0x800
/** The start and the end of the JSON string of each build in the body, two words. */
export const buildsStart: usize = 0x1800
/** The same for each type. */
export const typesStart: usize = 0x1c00
/** A hash table of the ids, one byte per slot: the number of an event, from 1, or 0. */
export const slotsStart: usize = 0x2000
/** The same for the types. */
export const typeSlotsStart: usize = 0x2100
/** The expected keys of an event, and those inside its values: see keys.ts. */
export const keysStart: usize = 0x2800
export const nestedKeysStart: usize = 0x3000
/** The body of the batch, of at most 262,144 bytes, followed by 16 zeros. */
export const bodyStart: usize = 0x1_0000

/** A position, as an offset in the body. */
export function toOffset(at: usize): u32 {
  return u32(at - bodyStart)
}
