import type { ConsumerStore } from '@ingest/core'
import { createTurns } from '@ingest/core/internal'
import type { SnapshotReader } from './read-snapshot.ts'
import { type ConsumerTable, decodeConsumers, encodeConsumers } from './tables/consumers.ts'
import type { Writer } from './writer/writer-client.ts'

export interface ConsumerStoreOptions {
  consumers: ConsumerTable
  writer: Writer
  reader: SnapshotReader
}

export function createConsumerStore({ consumers: table, writer, reader }: ConsumerStoreOptions): ConsumerStore {
  const { readSnapshot } = reader
  const inTurn = createTurns()

  return {
    async consumers(projectId) {
      return decodeConsumers(readSnapshot(() => table.entry(projectId)))
    },

    async consumerProjects() {
      return readSnapshot(() => table.ids())
    },

    updateConsumers(projectId, decide) {
      return inTurn(projectId, async () => {
        for (;;) {
          const before = readSnapshot(() => table.entry(projectId))
          const { consumers, result } = decide(decodeConsumers(before))
          if (!consumers) return result
          const after = encodeConsumers(consumers)
          if (await writer.run({ type: 'putConsumers', projectId, before, after })) return result
        }
      })
    },
  }
}
