export { type LmdbStoreInternals, openLmdbStoreWith } from './open-lmdb-store.ts'
