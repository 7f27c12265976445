import assert from 'node:assert/strict'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { AppendBatch, ReadOptions, Store } from '@ingest/core'
import { batchOf, event, frozenAt, idOfStored } from './sample-events.ts'
import { range } from './store-check.ts'

/** A batch whose events are named after it and the size, as is the build that the last of them references. */
export function watchedBatch(name: string, size: number): AppendBatch {
  const ids = watchedIds(name, size)
  return batchOf(ids.map((id, i) => event(id, i === size - 1 ? { buildId: name } : {})))
}

function watchedIds(name: string, size: number): string[] {
  return range(size).map((i) => `${name}/${size}/${i}`)
}

/**
 * Reads watched batches behind its cursor until nothing is running, and checks for each batch, through `other` too, what
 * must have become visible with its first event. Returns the ids in the order in which they were read.
 */
export async function watch(store: Store, other: Store, isRunning: () => boolean): Promise<string[]> {
  return tail(store, isRunning, async (id) => {
    const [name, size, index] = id.split('/') as [string, string, string]
    if (index !== '0') return
    const [at, known] = await Promise.all([frozenAt(other, name), other.known('p', watchedIds(name, Number(size)))])
    assert.notEqual(at, undefined, 'an event is visible and its build is open')
    assert.ok(known.every(Boolean), 'an event is visible and others of its batch are not')
  })
}

/** Reads behind its cursor until nothing is running, and once more. Returns the ids in the order in which they were read. */
export async function tail(
  store: Store,
  isRunning: () => boolean,
  onId: (id: string) => Promise<void> = async () => {},
): Promise<string[]> {
  const seen: string[] = []
  let options: ReadOptions = {}
  for (let last = false; !last; ) {
    last = !isRunning()
    for await (const each of store.read('p', options)) {
      options = { after: each.cursor }
      const id = idOfStored(each)
      seen.push(id)
      await onId(id)
    }
    await nextTurn()
  }
  return seen
}
