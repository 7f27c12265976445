import type { ActivityRow, ActivityStore, ActivityToPut } from '@ingest/core'
import { mapProjects } from '@ingest/core/internal'
import { byteaArray, int8Array, textArray } from '../connection/binary-arrays.ts'
import type { Database } from '../connection/database.ts'
import { createProjectQuery, type ProjectNumbers } from '../projects/project-numbers.ts'

/** Rows that one statement reads. */
const pageRowsMax = 200

/** `checkOpen` throws once the store is closed. */
export function createActivityStore(database: Database, numbers: ProjectNumbers, checkOpen: () => void): ActivityStore {
  const query = createProjectQuery(database, numbers)

  /** Writes rows of a project in one transaction. */
  async function putRows(projectId: string, rows: readonly ActivityToPut[]): Promise<void> {
    for (;;) {
      const project = await numbers.create(projectId)
      const [row] = await database.query<{ written: boolean }>('put-activity', [project, ...valuesOf(rows)])
      if (row?.written) return
      numbers.forget(projectId)
    }
  }

  return {
    async putActivity(rows) {
      const byProject = new Map<string, ActivityToPut[]>()
      for (const row of rows) {
        const together = byProject.get(row.projectId)
        if (together) together.push(row)
        else byProject.set(row.projectId, [row])
      }
      await mapProjects([...byProject], ([projectId, together]) => putRows(projectId, together))
    },

    async *activity(projectId, { span, from, to }) {
      checkOpen()
      // sorts before the first writer at `from`
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
  }
}

function valuesOf(rows: readonly ActivityToPut[]): Buffer[] {
  return [
    textArray(rows.map(({ span }) => span)),
    int8Array(rows.map(({ at }) => at)),
    byteaArray(rows.map(({ writer }) => Buffer.from(writer, 'hex'))),
    textArray(rows.map(({ body }) => body)),
  ]
}
