import type { Store } from '@ingest/core'
import type { LmdbStoreOptions } from '../src/index.ts'
import type { LmdbStoreInternals } from '../src/open-lmdb-store.ts'

export interface BuiltStoreOptions extends LmdbStoreOptions {
  internals?: LmdbStoreInternals
}

/** The built package, whose files and threads are those that users run. */
export const builtStore = new URL('../dist/index.js', import.meta.url).href
export const builtInternals = new URL('../dist/internal.js', import.meta.url).href

const { openLmdbStoreWith } = (await import(builtInternals)) as typeof import('../src/internal.ts')

export function openLmdbStore(directory: string, options: BuiltStoreOptions = {}): Promise<Store> {
  const { internals = {}, ...rest } = options
  return openLmdbStoreWith(directory, rest, internals)
}
