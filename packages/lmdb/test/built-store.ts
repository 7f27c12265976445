/** Where the store as it is built stands. */
export const builtStore = new URL('../dist/index.js', import.meta.url).href

/** The store as it is built: its files, and so its threads, are those of the package. */
export const { openLmdbStore } = (await import(builtStore)) as typeof import('../src/index.ts')
