/** How far the rebuild of the id index is. */
export interface RebuildProgress {
  /** Records of the log. */
  done: number
  total: number
}
