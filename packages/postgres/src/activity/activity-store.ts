import { setTimeout as sleep } from 'node:timers/promises'
import type { ActivityRow, ActivityStore, ActivityToPut } from '@ingest/core'
import { mapProjects } from '@ingest/core/internal'
import { byteaArray, int8Array, textArray } from '../connection/binary-arrays.ts'
import type { Database } from '../connection/database.ts'
import { createProjectQuery, type ProjectNumbers } from '../projects/project-numbers.ts'
import { type ProjectRow, readProjects } from '../projects/read-projects.ts'

/** Rows that one statement reads. */
const pageRowsMax = 200
/** Rows that one statement deletes. */
const expiryRowsMax = 500

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

  /** Deletes expired rows, a bounded number with each statement, and resolves to how many. */
  async function expireRows(project: number, before: number): Promise<number> {
    for (let erased = 0; ; ) {
      checkOpen()
      const startedAt = performance.now()
      const [row] = await database.query<{ expired: number }>('expire-activity', [project, before, expiryRowsMax])
      const expired = row?.expired ?? 0
      erased += expired
      // pause, so that other statements can run
      await sleep(performance.now() - startedAt)
      if (expired < expiryRowsMax) return erased
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

    async expireActivity(before) {
      let erased = 0
      for await (const page of readProjects<ExpiryProject>(database, 'activity-projects', before)) {
        checkOpen()
        const expiring = page.filter(({ expires }) => expires)
        const counts = await mapProjects(expiring, ({ project }) => expireRows(project, before))
        for (const count of counts) erased += count
      }
      return erased
    },
  }
}

interface ExpiryProject extends ProjectRow {
  expires: boolean
}

function valuesOf(rows: readonly ActivityToPut[]): Buffer[] {
  return [
    textArray(rows.map(({ span }) => span)),
    int8Array(rows.map(({ at }) => at)),
    byteaArray(rows.map(({ writer }) => Buffer.from(writer, 'hex'))),
    textArray(rows.map(({ body }) => body)),
  ]
}
