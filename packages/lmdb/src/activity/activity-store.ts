import type { ActivityRow, ActivityStore } from '@ingest/core'
import type { SlicedReads } from '../log/snapshot-reader.ts'
import type { CommandRunner } from '../threads/run-command.ts'
import type { ActivityCommands, ActivityTable } from './activity-table.ts'

export interface ActivityStoreOptions {
  activity: ActivityTable
  writer: CommandRunner<ActivityCommands>
  slicedReads(projectId: string): SlicedReads
  /** @throws {IngestError} `store-closed` */
  checkOpen(): void
}

/** The most rows that one step of a read takes. */
const activityRowsMax = 32

export function createActivityStore(options: ActivityStoreOptions): ActivityStore {
  const { activity: table, writer, slicedReads, checkOpen } = options

  return {
    async putActivity(rows) {
      if (rows.length > 0) await writer.run({ type: 'putActivity', rows })
    },

    async *activity(projectId, range) {
      checkOpen()
      const { readSnapshot, nextStep } = slicedReads(projectId)
      let last: ActivityRow | undefined
      for (;;) {
        await nextStep()
        checkOpen()
        const rows = readSnapshot(() => table.read(projectId, range, activityRowsMax, last))
        for (const row of rows) {
          checkOpen()
          yield row
        }
        if (rows.length < activityRowsMax) return
        last = rows.at(-1)
      }
    },
  }
}
