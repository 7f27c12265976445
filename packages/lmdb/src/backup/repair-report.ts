// a file of its own: the types of users must not lead to those of lmdb, which do not compile everywhere

/** What was saved of a damaged store, and what was not. */
export interface RepairReport {
  records: number
  events: number
  maps: number
  projects: number
  fileBytes: number
  lost: {
    /** The first ranges, by their numbers in the damaged store. */
    records: LostRecords[]
    recordCount: number
    /** A build froze at this time, and no saved record is as late: those up to it are lost. Milliseconds since 1970. */
    until?: number
    /** By how much the file of the log is truncated, if its header can be read. */
    bytes: number
    /** By the totals of each project, if those can be read. */
    events: { projectId: string; events: number }[]
    maps: LostMap[]
    /** Projects whose keys are lost. */
    keysOf: string[]
    /** Tables with damaged pages, whose lost rows are not known. */
    tables: string[]
  }
  /** Records whose time was before that of the previous record, and was replaced by the latter. */
  clampedRecords: number
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
