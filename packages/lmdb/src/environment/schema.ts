/**
 * The tables of the store. Keys and values are bytes, numbers in them big-endian: a project is 4 bytes, a sequence 8.
 * The files in parentheses have the layouts.
 */
export const schema = {
  /** The truth. */
  events: {
    /** which store, epoch and secret this is (environment/identity.ts) */
    meta: 'name → value',
    /** batches, in the order of their commits (log/record.ts) */
    log: 'sequence → record',
    /** the records of a project */
    'project-log': 'project, sequence → nothing',
    /** when a build froze, milliseconds as a double */
    freezes: 'project, buildId → time',
    /** an index of the builds by freezes (maps/builds.ts) */
    'newest-builds': 'project, time, buildId → nothing',
    totals: 'project → events, batches, bytes',
    /** readers begin at the first record that an expiry has not erased */
    expiries: 'project → sequence, CRC32 of both',
    /** keys and metadata (entries/projects.ts) */
    projects: 'projectId → JSON',
    'project-numbers': 'projectId → project, and project → projectId',
    /** an authentication needs to know whether the entry has changed, and reading it takes as long as copying it */
    'project-versions': 'projectId → 16 random bytes',
    /** the positions of readers (entries/entry-tables.ts) */
    consumers: 'projectId → JSON',
    /** the counts of each process by minute and hour (activity/activity-table.ts) */
    activity: 'projectId, span, time, writer → JSON',
    /** the slot of a place in a build (maps/map-reader.ts) */
    maps: 'project, buildId, placeId → complete and pending map',
    /** the chunks of a map */
    manifests: 'number → digests and sizes',
    /** the last number that a manifest got, so that none is used again */
    'manifest-numbers': 'one row',
    /** manifests that no map references, and the next of their chunks to release */
    'detached-manifests': 'project, number → index',
    /** when it was touched, how many chunks are missing, its pending bytes, and the name of its map */
    'pending-manifests': 'project, number → row',
    /** pending manifests that miss no chunk, with the name of their map */
    'ready-manifests': 'project, number → name',
    /** the manifests that miss a chunk */
    'missing-chunks': 'project, digest, number → nothing',
    /** stored chunks (chunks/chunk-encoding.ts) */
    chunks: 'project, digest → blob key, size',
    /** the manifests that name a chunk, with the size that they give */
    'chunk-references': 'project, digest, number → size',
    /** blobs that no chunk names any more */
    'chunk-garbage': 'blob key → nothing',
    /** how often garbage was collected, and where orphans are looked for */
    'chunk-collections': 'name → value',
  },
  /** An index that is rebuilt from the log (ids/run-list.ts). */
  ids: {
    /** the list of runs and its revision */
    meta: 'name → value',
    /** entries of 16 bytes (ids/run.ts) */
    blocks: 'run, block → entries',
    /** (ids/fuse-filter.ts) */
    filters: 'run, segment → binary fuse filter',
  },
  /** The bytes of maps. */
  chunks: {
    /** which store this is (environment/identity.ts) */
    meta: 'name → value',
    /** (chunks/chunk-blobs.ts) */
    bytes: 'blob key → bytes',
  },
} as const

export type TableName = { [Name in keyof typeof schema]: keyof (typeof schema)[Name] }[keyof typeof schema]
