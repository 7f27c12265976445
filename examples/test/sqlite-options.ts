const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
const isSupported = major > 22 || (major === 22 && minor >= 16)

/** Skips a test on a Node without what the SQLite store uses of node:sqlite. */
export const sqliteOptions = isSupported ? {} : { skip: 'node:sqlite needs Node 22.16; .ci/run tests it on Node 24' }
