export { type LmdbStoreOptions, openLmdbStore } from './open-lmdb-store.ts'
export { restoreLmdbStore } from './restore-lmdb-store.ts'
