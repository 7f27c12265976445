import type { Play, Settings } from '../play.ts'

/** A rule for senders, and the play that shows whether a program keeps it. */
export interface Rule {
  id: string
  /** The sentence of the documentation. */
  rule: string
  /** What the play expects, in one sentence. */
  expected: string
  settings?: Settings
  /** Whether only senders with a spool have this rule. */
  needsSpool?: boolean
  /** Throws a `BrokenRule`. */
  play(play: Play): Promise<void>
}

/** Events that are told apart by `n`. */
export function makeEvents(count: number, from = 0): { n: number }[] {
  return Array.from({ length: count }, (_, i) => ({ n: from + i }))
}
