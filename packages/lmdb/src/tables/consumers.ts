import type { ConsumerRecord } from '@ingest/core'
import type { Rows } from '../environment/environment.ts'
import type { TableName } from '../environment/schema.ts'

/** The consumers of each project, as JSON; a project without consumers has no entry. */
export interface ConsumerTable {
  /** The entry of a project, empty without one: it differs between any two states. */
  entry(projectId: string): string
  /** The projects with consumers, in the order of their bytes. */
  ids(): string[]
  /** Only inside a write transaction. */
  put(projectId: string, entry: string): void
}

export function openConsumers(table: (name: TableName) => Rows): ConsumerTable {
  const entries = table('consumers')
  return {
    entry: (projectId) => entries.getBinary(Buffer.from(projectId))?.toString() ?? '',
    ids: () => Array.from(entries.getKeys({}), String),
    put(projectId, entry) {
      const key = Buffer.from(projectId)
      if (entry === '') entries.remove(key)
      else entries.put(key, Buffer.from(entry))
    },
  }
}

export function encodeConsumers(consumers: readonly ConsumerRecord[]): string {
  return consumers.length === 0 ? '' : JSON.stringify(consumers)
}

export function decodeConsumers(entry: string): readonly ConsumerRecord[] {
  return entry === '' ? [] : JSON.parse(entry)
}
