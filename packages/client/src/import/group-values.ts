import { batchBytesMax, batchEventsMax } from '@ingest/core'
import { envelopeEnd, envelopeStart, eventBytesMax, separator } from '../batch/fill-batch.ts'
import type { SlicedValue } from './slice-values.ts'

/** The body of a batch with as many values as fit. A value that is too large for a batch is a group of its own. */
export interface ValueGroup {
  body: Buffer
  /** Ranges of `body`. */
  values: readonly SlicedValue[]
}

/** Groups values, in order. */
export interface ValueGroups {
  add(value: SlicedValue): void
  hasFull(): boolean
  isEmpty(): boolean
  /** Removes the oldest group, full or not. */
  next(): ValueGroup | undefined
}

export function createValueGroups(): ValueGroups {
  const full: ValueGroup[] = []
  const buffer = Buffer.allocUnsafe(batchBytesMax)
  let size = envelopeStart.copy(buffer)
  let values: SlicedValue[] = []

  function closeGroup(): ValueGroup {
    // a copy, because the buffer is refilled while the group is sent
    const body = Buffer.concat([buffer.subarray(0, size), envelopeEnd])
    for (const value of values) value.source = body
    const group = { body, values }
    size = envelopeStart.length
    values = []
    return group
  }

  return {
    add({ at, source, start, end, isTooLong }) {
      const bytes = end - start
      const isLonger = isTooLong || bytes > eventBytesMax
      const needed = separator.length + bytes + envelopeEnd.length
      if (values.length > 0 && (isLonger || size + needed > batchBytesMax)) full.push(closeGroup())
      if (isLonger) {
        full.push({ body: source, values: [{ at, source, start, end, isTooLong }] })
        return
      }
      if (values.length > 0) size += separator.copy(buffer, size)
      values.push({ at, source: buffer, start: size, end: size + bytes, isTooLong })
      size += source.copy(buffer, size, start, end)
      if (values.length === batchEventsMax) full.push(closeGroup())
    },

    hasFull: () => full.length > 0,
    isEmpty: () => full.length === 0 && values.length === 0,
    next: () => full.shift() ?? (values.length > 0 ? closeGroup() : undefined),
  }
}
