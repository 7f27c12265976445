import type { MapStore } from '@ingest/core'
import type { Database } from '../connection/database.ts'
import type { ProjectNumbers } from '../projects/project-numbers.ts'

export interface MapStoreOptions {
  database: Database
  numbers: ProjectNumbers
}

export function createMapStore(_options: MapStoreOptions): MapStore {
  return {} as MapStore
}
