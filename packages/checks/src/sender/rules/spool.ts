import { setTimeout as sleep } from 'node:timers/promises'
import { totalOf } from '../counts.ts'
import { faults } from '../faults.ts'
import { BrokenRule, idsOf, type Play } from '../play.ts'
import type { Exchange } from '../scripted-server.ts'
import { makeEvents, type Rule, receive } from './rule.ts'

const settings = { hasSpool: true, flushMs: 20 }
const lockRule =
  'One sender at a time uses a spool: a second one is refused or takes another directory, and no event is lost.'
const changing = { hasSpool: true, changesDirectory: true }
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
  {
    id: 'spool-accepted',
    rule,
    expected: 'after a kill all events of `accepted` lines, also those that were never in a request, in order',
    settings: { hasSpool: true },
    needsSpool: true,
    async play(play) {
      // more than ten full batches, whose files may be numbered
      for (const [from, count] of [
        [0, 1200],
        [1200, 50],
      ] as const) {
        play.send(makeEvents(count, from))
        await play.accepted(count)
        await play.kill()
        await play.restart({ hasSpool: true }, undefined)
      }
      play.serve((exchange) => exchange.accept())
      await play.end()
      await expectEach(play, numbers(1250))
    },
  },
  {
    id: 'spool-empty',
    rule: 'What is stored or dropped is not sent again, also not after a restart.',
    expected: 'no request of a process after one whose events were all stored, dropped or rejected',
    settings: { hasSpool: true },
    needsSpool: true,
    async play(play) {
      play.send(makeEvents(103))
      await (await play.next()).accept()
      play.flush()
      await (await play.next()).respond(400)
      play.flush(makeEvents(2, 103))
      const rejected = [0, 1].map((index) => ({ index, eventId: null, issues: [] }))
      const result = JSON.stringify({ accepted: 0, duplicates: 0, rejected })
      ;(await play.next()).respond(202, { 'Content-Type': 'application/json' }, result)
      play.flush(makeEvents(1, 105))
      await (await play.next()).accept()
      await play.finish({ accepted: 101, rejected: 2, dropped: { bad_request: 3 } })
      await play.restart({ hasSpool: true, flushMs: 20 }, 0)
      await play.quiet(500, 'although the process before it had nothing left')
      await play.finish({})
    },
  },
  {
    id: 'spool-chdir',
    rule: 'A relative directory of the spool is that of the start, also after the program has changed its directory.',
    expected: 'after INGEST_CHDIR and a kill, all events of `accepted` lines from the spool of the start',
    settings: changing,
    needsSpool: true,
    async play(play) {
      play.send(makeEvents(150))
      await play.accepted(150)
      await play.kill()
      await play.restart(changing, undefined)
      play.serve((exchange) => exchange.accept())
      await play.end()
      await expectEach(play, numbers(150))
    },
  },
  {
    id: 'spool-lock',
    rule: lockRule,
    expected: 'a second program on the spool that ends with an error, or sends none of the events of the first',
    settings: { ...settings, closeMs: 1000 },
    needsSpool: true,
    async play(play) {
      play.send(makeEvents(5))
      const held = await play.next()
      const second = await play.startSecond()
      second.send(makeEvents(5, 100))
      const isTaken = await second.takes(5)
      if (isTaken) {
        const exchange = await play.next()
        if (Number(exchange.events[0]?.n) < 100) throw new BrokenRule('two programs sent the same events')
        await exchange.accept()
      }
      play.serve((exchange) => exchange.accept())
      await held.accept()
      await second.exit()
      await play.exit()
      await expectAfterRestart(play, [...numbers(5), ...(isTaken ? numbers(5, 100) : [])])
    },
  },
  {
    id: 'spool-frozen',
    rule: lockRule,
    expected: 'no event lost without a count if the first program is stopped for 12 seconds while a second one starts',
    settings: { ...settings, closeMs: 500 },
    needsSpool: true,
    async play(play) {
      play.send(makeEvents(5))
      await play.accepted(5)
      const freezer = play.freezer()
      freezer?.freeze()
      await sleep(12_000)
      // the second program stores what it finds and its first events, and leaves the others in the spool
      play.serve((exchange) => (numbersOf(exchange).some((n) => n >= 105) ? exchange.respond(503) : exchange.accept()))
      const second = await play.startSecond()
      second.flush(makeEvents(5, 100))
      second.send(makeEvents(5, 105))
      const isTaken = await second.takes(10)
      await second.exit()
      freezer?.thaw()
      play.send(makeEvents(10, 200))
      const isKept = await play.takes(15)
      const { counts } = await play.exit()
      const all = [...numbers(5), ...(isTaken ? numbers(10, 100) : []), ...(isKept ? numbers(10, 200) : [])]
      await expectAfterRestart(play, all, counts && totalOf(counts.dropped))
    },
  },
]

function numbersOf({ events }: Exchange): number[] {
  return events.map(({ n }) => Number(n))
}

function numbers(count: number, from = 0): number[] {
  return makeEvents(count, from).map(({ n }) => n)
}

/** Expects that a further program stores what is missing of these events, but for those that were dropped. */
async function expectAfterRestart(play: Play, expected: readonly number[], dropped = 0): Promise<void> {
  await play.restart(settings, undefined)
  play.serve((exchange) => exchange.accept())
  await play.end()
  const stored = new Set((await play.stored()).map(({ n }) => Number(n)))
  const lost = expected.filter((n) => !stored.has(n))
  if (lost.length > dropped) throw new BrokenRule(`${lost.length} events were lost, such as ${lost[0]}`)
}

/** Expects that these events are stored, and none twice or out of order. */
async function expectEach(play: Play, expected: readonly number[]): Promise<void> {
  const stored = (await play.stored()).map(({ n }) => Number(n))
  const present = new Set(stored)
  const lost = expected.find((n) => !present.has(n))
  if (lost !== undefined) throw new BrokenRule(`event ${lost} was lost`)
  const wrong = stored.findIndex((n, i) => i > 0 && n <= (stored[i - 1] as number))
  if (wrong !== -1) throw new BrokenRule(`event ${stored[wrong]} was stored after event ${stored[wrong - 1]}`)
}
