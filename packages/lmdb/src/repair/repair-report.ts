// a separate file: public types must not import those of lmdb, which do not compile everywhere

/** The data that a repair has copied, and the data that is lost. */
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
    /** The lost events of each project whose totals can be read. */
    events: { projectId: string; events: number }[]
    /** Complete maps that are lost. */
    maps: LostMap[]
    /** Projects whose keys are lost. */
    keysOf: string[]
    /** Damaged tables: no other table may name their lost rows. */
    tables: string[]
  }
}

export interface LostMap {
  projectId?: string
  placeId: string
  buildId: string
}
