import { setTimeout as sleep } from 'node:timers/promises'
import type { ActivityRow, ActivityStore, ActivityToPut } from '@ingest/core'
import { mapProjects } from '@ingest/core/internal'
import { byteaArray, int4Array, int8Array, textArray } from '../connection/binary-arrays.ts'
import type { Database } from '../connection/database.ts'
import { createProjectQuery, type ProjectNumbers } from '../projects/project-numbers.ts'

/** Rows that one statement reads. */
const pageRowsMax = 200
/** Rows that one statement deletes. */
const expiryRowsMax = 500

/** `checkOpen` throws once the store is closed. */
export function createActivityStore(database: Database, numbers: ProjectNumbers, checkOpen: () => void): ActivityStore {
  const query = createProjectQuery(database, numbers)

  return {
    async putActivity(rows) {
      const projectIds = [...new Set(rows.map(({ projectId }) => projectId))]
      for (let isWritten = rows.length === 0; !isWritten; ) {
        const found = await mapProjects(projectIds, (projectId) => numbers.create(projectId))
        const projects = new Map(projectIds.map((projectId, i) => [projectId, found[i] as number]))
        const [row] = await database.query<{ written: boolean }>('put-activity', valuesOf(rows, projects))
        isWritten = row?.written ?? false
        if (!isWritten) for (const projectId of projectIds) numbers.forget(projectId)
      }
    },

    async *activity(projectId, { span, from, to }) {
      checkOpen()
      // before the first writer of the first time
      let after = { at: from, writer: '' }
      for (;;) {
        const values = [span, after.at, Buffer.from(after.writer, 'hex'), to, pageRowsMax]
        const rows = await query<ActivityRow>(projectId, 'activity', ...values)
        for (const row of rows) {
          checkOpen()
          yield row
          after = row
        }
        if (rows.length < pageRowsMax) return
      }
    },

    async expireActivity(before) {
      for (let erased = 0; ; ) {
        checkOpen()
        const startedAt = performance.now()
        const [row] = await database.query<{ expired: number }>('expire-activity', [before, expiryRowsMax])
        const expired = row?.expired ?? 0
        erased += expired
        if (expired < expiryRowsMax) return erased
        // other statements wait for a step
        await sleep(performance.now() - startedAt)
      }
    },
  }
}

function valuesOf(rows: readonly ActivityToPut[], projects: ReadonlyMap<string, number>): Buffer[] {
  return [
    int4Array(rows.map(({ projectId }) => projects.get(projectId) as number)),
    textArray(rows.map(({ span }) => span)),
    int8Array(rows.map(({ at }) => at)),
    byteaArray(rows.map(({ writer }) => Buffer.from(writer, 'hex'))),
    textArray(rows.map(({ body }) => body)),
  ]
}
