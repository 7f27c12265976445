import type { ActivityStore } from '../store.ts'
import { type ActivityRow, type ActivitySpan, type ActivityToPut, activityRowsMax } from '../store-types.ts'

/** The most bytes of one put. */
const putBytesMax = 1_048_576

/** The rows to put, oldest first. A row stays until the store has it, or a newer one of its hour. */
export function createRowQueue(store: Pick<ActivityStore, 'putActivity'>) {
  const rows = new Map<string, ActivityToPut>()
  let bytes = 0

  function remove(row: ActivityToPut): void {
    bytes -= rows.get(keyOf(row))?.body.length ?? 0
    rows.delete(keyOf(row))
  }

  return {
    bytes: () => bytes,
    isEmpty: () => rows.size === 0,
    /** Whether there are enough rows for a put. */
    isFull: () => rows.size >= activityRowsMax || bytes >= putBytesMax,
    rowsOf: (projectId: string, span: ActivitySpan): ActivityRow[] =>
      [...rows.values()].filter((row) => row.projectId === projectId && row.span === span),

    add(row: ActivityToPut): void {
      remove(row)
      rows.set(keyOf(row), row)
      bytes += row.body.length
    },

    /** Puts the oldest rows, as many as one put may have. */
    async putSome(): Promise<void> {
      const some: ActivityToPut[] = []
      let someBytes = 0
      for (const row of rows.values()) {
        if (some.length === activityRowsMax || someBytes > putBytesMax) break
        some.push(row)
        someBytes += row.body.length
      }
      await store.putActivity(some)
      // a row of an hour may have been replaced meanwhile
      for (const row of some) if (rows.get(keyOf(row)) === row) remove(row)
    },
  }
}

function keyOf({ span, writer }: ActivityToPut): string {
  return `${span}/${writer}`
}
