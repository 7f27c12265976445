// The store as it is built: run from TypeScript, its worker would need a loader, which takes a second to start each time.
export { openLmdbStore } from '../../dist/lmdb/open-lmdb-store.js'
