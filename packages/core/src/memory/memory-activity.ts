import type { ActivityStore } from '../store.ts'
import type { ActivityToPut } from '../store-types.ts'

/** `checkOpen` throws once the store is closed. */
export function memoryActivityStore(checkOpen: () => void): ActivityStore & { sweepActivity(before: number): void } {
  const kept = new Map<string, ActivityToPut>()
  return {
    async putActivity(rows) {
      checkOpen()
      for (const row of rows) kept.set(keyOf(row), { ...row })
    },

    async *activity(projectId, { span, from, to }) {
      checkOpen()
      const found = [...kept.values()]
        .filter((row) => row.projectId === projectId && row.span === span && row.at >= from && row.at < to)
        .sort((a, b) => a.at - b.at || (a.writer < b.writer ? -1 : 1))
      for (const { at, writer, body } of found) {
        yield { at, writer, body }
        // the store may be closed between two steps
        checkOpen()
      }
    },

    sweepActivity(before) {
      for (const row of kept.values()) if (row.at < before) kept.delete(keyOf(row))
    },
  }
}

function keyOf({ projectId, span, at, writer }: ActivityToPut): string {
  return `${span}/${at}/${writer}/${projectId}`
}
