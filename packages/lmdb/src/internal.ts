export { openEnvironment } from './environment/environment.ts'
export { type LmdbStoreInternals, openLmdbStoreWith } from './open-lmdb-store.ts'
