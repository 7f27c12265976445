// a file of its own: the types of users must not lead to those of lmdb, which do not compile everywhere

/** What was copied of a damaged store, and what was lost where. */
export interface RepairReport {
  records: number
  events: number
  maps: number
  projects: number
  fileBytes: number
  lost: {
    /** The first ranges, by the numbers of records in the damaged store, both inclusive. */
    records: { from: number; to: number }[]
    recordCount: number
    /** By the totals of each project, if those can be read. */
    events: { projectId: string; events: number }[]
    /** Maps that were complete. */
    maps: LostMap[]
    /** Projects whose keys are lost. */
    keysOf: string[]
    /** Damaged tables, whose lost rows nothing else may name. */
    tables: string[]
  }
}

export interface LostMap {
  projectId?: string
  placeId: string
  buildId: string
}
