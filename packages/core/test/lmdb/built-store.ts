/** Where the store as it is built stands. */
export const builtStore = new URL('../../dist/open-lmdb-store.js', import.meta.url).href

/**
 * The store as it is built, with threads of its own. Run from TypeScript its writer shares the thread of the test, which
 * a commit that has to wait would hold up, and its index worker needs a loader, which takes a second to start each time.
 */
export const { openLmdbStore } = (await import(builtStore)) as typeof import('../../src/lmdb/open-lmdb-store.ts')
