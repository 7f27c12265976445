import { BrokenRule, type Play } from '../play.ts'
import type { Exchange } from '../scripted-server.ts'
import type { Settings } from '../settings.ts'

/** A rule for senders, with the play that shows whether a program keeps it. */
export interface Rule {
  id: string
  /** The sentence in the documentation. */
  rule: string
  /** What the play expects, in one sentence. */
  expected: string
  settings?: Settings
  /** Whether the rule applies only to senders with a spool. */
  needsSpool?: boolean
  /** Throws a `BrokenRule` if the program breaks it. */
  play(play: Play): Promise<void>
}

/** Events that differ in `n`. */
export function makeEvents(count: number, from = 0): { n: number }[] {
  return Array.from({ length: count }, (_, i) => ({ n: from + i }))
}

/** Checks and accepts batches until that many events have arrived. */
export async function receive(
  play: Play,
  count: number,
  check: (exchange: Exchange) => void = () => {},
): Promise<void> {
  for (let received = 0; received < count; ) {
    const exchange = await play.next()
    if (exchange.events.length === 0) throw new BrokenRule('a batch without events')
    check(exchange)
    received += exchange.events.length
    await exchange.accept()
  }
}
