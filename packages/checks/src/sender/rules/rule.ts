import { BrokenRule, type Play } from '../play.ts'
import type { Exchange } from '../scripted-server.ts'
import type { Settings } from '../settings.ts'

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

/** Accepts batches until that many events have arrived, after a check of each batch. */
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
