export { verifyDirectory } from './backup/verify-directory.ts'
export { openEnvironment } from './environment/environment.ts'
export { type LmdbStoreInternals, openLmdbStoreWith } from './open-lmdb-store.ts'
