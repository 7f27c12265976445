/** How far the index has come while it is made again. */
export interface RebuildProgress {
  /** Records of the log. */
  done: number
  total: number
}
