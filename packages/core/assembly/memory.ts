// Where everything is in the memory. Its first KiB stays zero: a position of 0 means that scanning failed, and what
// reads on from there fails again, so that most functions need not check for it.

/** The key of the hashes of ids, 16 bytes. */
export const hashKeyStart: usize = 0x400
/** The project that events must belong to, as a JSON string. */
export const projectIdStart: usize = 0x410
/** The rows of the events, as `BatchEvents` of src/events/batch-events.ts has them. */
export const rowsStart: usize = 0x800
/** The builds: for each the start and the end of its text in the body, two words. */
export const buildsStart: usize = 0x1400
/** A hash table of the events by the hashes of their ids: the number of an event, from 1 on, in each used slot. */
export const slotsStart: usize = 0x1800
/** What is expected of the keys of an event, {@link keyBytes} each: its own, and those inside of its values. */
export const keysStart: usize = 0x2000
export const nestedKeysStart: usize = 0x2800
export const keyBytes: usize = 32
export const keysMost: usize = 64
/** The body of the batch, of at most 262,144 bytes; 16 zeros follow it. */
export const bodyStart: usize = 0x1_0000

/** Of a row. */
export const rowBytes: usize = 28
/** 256 slots, of which a batch uses at most 100. */
export const slotMask: usize = 255

/** The position in the body, as rows and builds have it. */
export function toOffset(at: usize): u32 {
  return u32(at - bodyStart)
}
