import { randomUUID } from 'node:crypto'
import type { Entries, EntryKind, EntryStore } from '@ingest/core'
import { createKeyedMutex } from '@ingest/core/internal'
import type { Database } from '../connection/database.ts'
import type { ProjectNumbers } from './project-numbers.ts'
import { listProjects } from './read-projects.ts'

/** The statements of `sql/queries` of each kind. */
const queries: Readonly<Record<EntryKind, { read: string; write: string; list: string }>> = {
  project: { read: 'project-state', write: 'put-project', list: 'projects' },
  consumers: { read: 'consumers', write: 'put-consumers', list: 'consumer-projects' },
}

interface StateRow {
  version: string | null
  /** The JSON of the entry; null without one. */
  state: string | null
}

export function createEntryStore(database: Database, numbers: ProjectNumbers): EntryStore {
  const inTurn = createKeyedMutex()

  async function readRow(query: Database['query'], kind: EntryKind, project: number | undefined): Promise<StateRow> {
    const [row] = project === undefined ? [] : await query<StateRow>(queries[kind].read, [project])
    return row ?? { version: null, state: null }
  }

  return {
    async entry(kind, projectId) {
      return parse(kind, await readRow(database.query, kind, await numbers.find(projectId)))
    },

    updateEntry(kind, projectId, decide) {
      return inTurn(`${kind} ${projectId}`, async () => {
        let { query } = database
        for (;;) {
          const existing = await numbers.find(projectId)
          const before = await readRow(query, kind, existing)
          const { entry, result } = decide(parse(kind, before))
          if (entry === undefined) {
            // the synchronous standby must have what decided
            if (query === database.queryConfirmed) return result
            query = database.queryConfirmed
            continue
          }
          const number = existing ?? (await numbers.create(projectId))
          const values = [number, before.version, randomUUID(), entry === null ? null : JSON.stringify(entry)]
          const [row] = await database.query<{ written: boolean }>(queries[kind].write, values)
          if (row?.written) return result
          numbers.forget(projectId)
        }
      })
    },

    projects: (kind = 'project') => listProjects(database, queries[kind].list),
  }
}

function parse<Kind extends EntryKind>(_: Kind, { state }: StateRow): Entries[Kind] | undefined {
  return state === null ? undefined : JSON.parse(state)
}
