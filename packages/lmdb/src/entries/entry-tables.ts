import type { Entries, EntryKind, Project } from '@ingest/core'
import type { Rows } from '../environment/environment.ts'
import type { TableName } from '../environment/schema.ts'

/** The entries of one kind, as JSON by project. */
export interface EntryTable<Entry> {
  get(projectId: string): Entry | undefined
  /** The JSON of an entry, empty without one: it differs between any two states. */
  json(projectId: string): string
  /** Only inside a write transaction. */
  put(projectId: string, json: string): void
  /**
   * The projects that the store lists for the kind, in the order of their bytes: those after `after`, at most `limit`.
   */
  ids(range?: { after?: string | undefined; limit?: number }): string[]
}

/** The commands of the writer for entries. */
export interface EntryCommands {
  /** Writes the JSON of an entry, empty for none, if the entry still is `before`; returns whether it was. */
  putEntry: {
    command: { type: 'putEntry'; kind: EntryKind; projectId: string; before: string; after: string }
    result: boolean
  }
}

export type EntryTables = { [Kind in EntryKind]: EntryTable<Entries[Kind]> }

export function openEntries(table: (name: TableName) => Rows, projects: EntryTable<Project>): EntryTables {
  return { project: projects, consumers: openConsumers(table('consumers')) }
}

function openConsumers(rows: Rows): EntryTable<Entries['consumers']> {
  const jsonOf = (projectId: string) => rows.getBinary(Buffer.from(projectId))?.toString() ?? ''
  return {
    get(projectId) {
      const json = jsonOf(projectId)
      return json === '' ? undefined : JSON.parse(json)
    },
    json: jsonOf,
    put(projectId, json) {
      const key = Buffer.from(projectId)
      if (json === '') rows.remove(key)
      else rows.put(key, Buffer.from(json))
    },
    ids: (range) => projectIdsIn(rows, range),
  }
}

/** The project ids that are the keys of a table. */
export function projectIdsIn(
  rows: Rows,
  { after, ...range }: { after?: string | undefined; limit?: number } = {},
): string[] {
  const start = after === undefined ? {} : { start: Buffer.from(`${after}\0`) }
  return Array.from(rows.getKeys({ ...start, ...range }), String)
}
