import type { Entries, EntryKind, EntryStore } from '@ingest/core'
import { createKeyedMutex, nextReadStep } from '@ingest/core/internal'
import { type SnapshotReader, stepRowsMax } from '../log/snapshot-reader.ts'
import type { CommandRunner } from '../threads/run-command.ts'
import type { EntryCommands, EntryTables } from './entry-tables.ts'

export interface EntryStoreOptions {
  entries: EntryTables
  writer: CommandRunner<EntryCommands>
  reader: SnapshotReader
}

export function createEntryStore({ entries, writer, reader }: EntryStoreOptions): EntryStore {
  const { readSnapshot } = reader
  const inTurn = createKeyedMutex()

  return {
    async entry(kind, projectId) {
      return readSnapshot(() => entries[kind].get(projectId))
    },

    updateEntry(kind, projectId, decide) {
      return inTurn(`${kind} ${projectId}`, async () => {
        for (;;) {
          const before = readSnapshot(() => entries[kind].json(projectId))
          const { entry, result } = decide(parse(kind, before))
          if (entry === undefined) return result
          const after = entry === null ? '' : JSON.stringify(entry)
          if (await writer.run({ type: 'putEntry', kind, projectId, before, after })) return result
        }
      })
    },

    async projects(kind = 'project') {
      const ids: string[] = []
      for (;;) {
        const slice = readSnapshot(() => entries[kind].ids({ after: ids.at(-1), limit: stepRowsMax }))
        ids.push(...slice)
        if (slice.length < stepRowsMax) return ids
        await nextReadStep('')
      }
    },
  }
}

function parse<Kind extends EntryKind>(_: Kind, text: string): Entries[Kind] | undefined {
  return text === '' ? undefined : JSON.parse(text)
}
