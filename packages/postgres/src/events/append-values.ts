import type { AppendBatch, BatchEvents } from '@ingest/core'
import { column, countEvents, noName, wordsPerEvent } from '@ingest/core/internal'
import { int2Array, int4Array, int8Array, textArray, writtenArray } from '../connection/binary-arrays.ts'
import { joinedBytes, writeEvents } from './batch-body.ts'
import { writeEventKey } from './event-key.ts'

/** The values of `append_1` from `received` on, written from the rows of the events without an object for each. */
export function appendValues(batches: readonly AppendBatch[]): unknown[] {
  const counts = batches.map(({ events }) => countEvents(events))
  const count = counts.reduce((sum, each) => sum + each, 0)
  const batchNumbers = new Int32Array(count)
  const indexes = new Int16Array(count)
  const buildNumbers = new Int32Array(count)
  const builds = new Map<string, number>()
  let at = 0
  for (const [number, { events }] of batches.entries()) {
    const numbers = events.builds.map((build) => numberIn(builds, build))
    for (let row = column.build, index = 0; row < events.rows.length; row += wordsPerEvent, index++) {
      const build = events.rows[row] as number
      batchNumbers[at] = number
      indexes[at] = index
      buildNumbers[at++] = build === noName ? 0 : (numbers[build] as number)
    }
  }
  return [
    int8Array(batches.map(({ receivedAt }) => receivedAt)),
    int4Array(counts),
    bodiesOf(batches),
    keysOf(batches, count),
    int4Array(batchNumbers),
    int2Array(indexes),
    int4Array(buildNumbers),
    textArray([...builds.keys()]),
  ]
}

/** The number of a name, from 1 in the order of first use. */
function numberIn(numbers: Map<string, number>, name: string): number {
  const known = numbers.get(name)
  if (known !== undefined) return known
  numbers.set(name, numbers.size + 1)
  return numbers.size
}

function bodiesOf(batches: readonly AppendBatch[]): Buffer {
  const size = batches.reduce((sum, { events }) => sum + joinedBytes(events), 0)
  return writtenArray('text', batches.length, size, (out, at, index) => {
    const { body, events } = batches[index] as AppendBatch
    return writeEvents(out, at, bufferOf(body), events)
  })
}

function keysOf(batches: readonly AppendBatch[], count: number): Buffer {
  const bytesMax = batches.reduce((sum, { events }) => sum + idBytes(events), 0)
  let batchNumber = 0
  let row = 0
  return writtenArray('bytea', count, bytesMax, (out, at) => {
    if (row === (batches[batchNumber] as AppendBatch).events.rows.length) {
      batchNumber++
      row = 0
    }
    const { body, events } = batches[batchNumber] as AppendBatch
    const [start, end] = [events.rows[row + column.idStart] as number, events.rows[row + column.idEnd] as number]
    row += wordsPerEvent
    return writeEventKey(out, at, { body: bufferOf(body), start, end })
  })
}

function idBytes({ rows }: BatchEvents): number {
  let bytes = 0
  for (let row = 0; row < rows.length; row += wordsPerEvent) {
    bytes += (rows[row + column.idEnd] as number) - (rows[row + column.idStart] as number)
  }
  return bytes
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
}
