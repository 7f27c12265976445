import { setTimeout as sleep } from 'node:timers/promises'
import type { Store } from '@ingest/core'
import { mapProjects } from '@ingest/core/internal'
import type { Database } from './connection/database.ts'
import { type ProjectRow, readProjects } from './projects/read-projects.ts'

/** Rows of activity that one statement deletes. */
const expiryRowsMax = 500

interface MapRow {
  project: number
  build_id: string
  place_id: Buffer
  unneeded: boolean | null
}

/** Sorts before every map: the number of a project may be negative. */
const firstMap: MapRow = { project: -(2 ** 31), build_id: '', place_id: Buffer.alloc(0), unneeded: false }
/** Maximum number of maps that one statement examines. */
const sweptMax = 256

/** `checkOpen` throws once the store is closed. */
export function createSweep(database: Database, checkOpen: () => void): Store['sweep'] {
  async function sweepMaps(touchedBefore: number): Promise<void> {
    for (let last: MapRow | undefined = firstMap; last; ) {
      checkOpen()
      const after = [last.project, last.build_id, last.place_id]
      const maps: MapRow[] = await database.query('maps-to-sweep', [touchedBefore, ...after, sweptMax])
      for (const { project, build_id: build, place_id: place, unneeded } of maps) {
        if (unneeded) await database.query('sweep-map', [project, build, place, touchedBefore])
      }
      last = maps.at(-1)
    }
  }

  /** Deletes expired rows, a bounded number with each statement. */
  async function expireRows(project: number, before: number): Promise<void> {
    for (;;) {
      checkOpen()
      const startedAt = performance.now()
      const [row] = await database.query<{ expired: number }>('expire-activity', [project, before, expiryRowsMax])
      if (row?.expired !== expiryRowsMax) return
      // pause, so that other statements can run
      await sleep(performance.now() - startedAt)
    }
  }

  async function sweepActivity(before: number): Promise<void> {
    for await (const page of readProjects<ExpiryProject>(database, 'activity-projects', before)) {
      checkOpen()
      const expiring = page.filter(({ expires }) => expires)
      await mapProjects(expiring, ({ project }) => expireRows(project, before))
    }
  }

  return async ({ mapsTouched, activity }) => {
    // each is swept even if the other cannot be
    try {
      await sweepActivity(activity)
    } finally {
      await sweepMaps(mapsTouched)
    }
  }
}

interface ExpiryProject extends ProjectRow {
  expires: boolean
}
