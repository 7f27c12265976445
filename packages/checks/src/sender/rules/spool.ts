import { faults } from '../faults.ts'
import { BrokenRule, idsOf, type Play } from '../play.ts'
import type { Exchange } from '../scripted-server.ts'
import { makeEvents, type Rule, receive } from './rule.ts'

const settings = { hasSpool: true, flushMs: 20 }
const rule =
  'With a spool, events survive the end of the process; the next sender on the directory sends them first, with the same ids.'

/** What a spool promises. */
export const spoolRules: readonly Rule[] = [
  {
    id: 'spool-kill',
    rule,
    expected:
      'after a kill the same events again, each with the same id and in order, before those of the next process',
    settings,
    needsSpool: true,
    async play(play) {
      play.flush(makeEvents(5))
      await receive(play, 5)
      play.send(makeEvents(100, 5))
      let batch = await play.next()
      const requested = new Set(numbersOf(batch))
      for (const fault of [faults[503], faults['stall after'], faults['reset before']]) {
        await batch.inject(fault)
        await play.kill()
        await play.restart(settings, undefined)
        batch = await play.next()
        // the first events may come again: their outcome may have been lost
        if (Number(batch.events[0]?.n) > 5)
          throw new BrokenRule(`the next process started with event ${batch.events[0]?.n}`)
        for (const n of numbersOf(batch)) requested.add(n)
      }
      await batch.accept()
      play.send(makeEvents(5, 1000))
      play.serve((exchange) => exchange.accept())
      await play.end()
      await expectEach(play, [...requested, 1000, 1001, 1002, 1003, 1004])
    },
  },
  {
    id: 'spool-close',
    rule,
    expected: 'events that `close` leaves counted as `unsent`, and sent by the next process with the same ids',
    settings: { ...settings, closeMs: 300 },
    needsSpool: true,
    async play(play) {
      play.send(makeEvents(3))
      const attempts: Exchange[] = []
      play.serve((exchange) => void attempts.push(exchange))
      const { unsent } = await play.end()
      if (unsent !== 3) throw new BrokenRule(`${unsent} of 3 events were unsent`)
      await play.restart(settings, 3)
      const batch = await play.next()
      const first = attempts[0] && idsOf(attempts[0])
      if (first && idsOf(batch)[0] !== first[0])
        throw new BrokenRule(`the id ${idsOf(batch)[0]} in place of ${first[0]}`)
      await batch.accept()
      await play.finish({ accepted: 3 })
    },
  },
]

function numbersOf({ events }: Exchange): number[] {
  return events.map(({ n }) => Number(n))
}

/** Expects that these events are stored, and none twice or out of order. */
async function expectEach(play: Play, expected: readonly number[]): Promise<void> {
  const stored = (await play.stored()).map(({ n }) => Number(n))
  const lost = expected.find((n) => !stored.includes(n))
  if (lost !== undefined) throw new BrokenRule(`event ${lost} was lost`)
  const wrong = stored.findIndex((n, i) => i > 0 && n <= (stored[i - 1] as number))
  if (wrong !== -1) throw new BrokenRule(`event ${stored[wrong]} was stored after event ${stored[wrong - 1]}`)
}
