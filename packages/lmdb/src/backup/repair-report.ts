/** What was saved of a damaged store, and what was not. */
export interface RepairReport {
  records: number
  events: number
  maps: number
  projects: number
  fileBytes: number
  lost: {
    /** By their numbers in the damaged store. */
    records: LostRecords[]
    recordCount: number
    /** By the totals of each project, if those can be read. */
    events: { projectId: string; events: number }[]
    maps: LostMap[]
    /** Projects whose keys are lost. */
    keysOf: string[]
    /** Tables with damaged pages, whose lost rows are not known. */
    tables: string[]
  }
  /** Events that were erased may be back: erase them again. */
  mayHaveErased: boolean
}

/** Records that could not be saved. */
export interface LostRecords {
  /** Their numbers, both inclusive. */
  from: number
  to: number
  /** The project of the first one, if it is known. */
  projectId?: string
}

/** A map that could not be saved, or not in its complete version. */
export interface LostMap {
  projectId?: string
  placeId: string
  buildId: string
}
