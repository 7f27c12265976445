import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { totalOf } from '../counts.ts'
import { faults } from '../faults.ts'
import { BrokenRule, idsOf, type Play, SkippedRule } from '../play.ts'
import type { Freezer } from '../program.ts'
import type { Exchange } from '../scripted-server.ts'
import { makeLargeEvents, playFull } from './queue.ts'
import { makeEvents, type Rule, receive } from './rule.ts'

const settings = { hasSpool: true, flushMs: 20 }
const lockRule =
  'One sender at a time uses a spool: a second one is refused or takes another directory, and no event is lost.'
const deletedRule =
  'If the directory of the spool is deleted, the sender creates it again, with the events in memory. `unsent` counts only events that are in a file.'
const rule =
  'With a spool, events survive the end of the process; the next sender on the directory sends them first, with the same ids.'

/** Rules for a spool. */
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
        await play.restart('any')
        batch = await play.next()
        // the first events may be sent again, because their outcome may have been lost
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
      await play.restart(3, { closeMs: 600_000 })
      const batch = await play.next()
      const first = attempts[0] && idsOf(attempts[0])
      if (first && idsOf(batch)[0] !== first[0])
        throw new BrokenRule(`the id ${idsOf(batch)[0]} in place of ${first[0]}`)
      await batch.accept()
      await play.finish({ accepted: 3 })
    },
  },
  {
    id: 'spool-taken',
    rule,
    expected: 'after a kill all events of `taken` lines, also those that were never in a request, in order',
    settings: { hasSpool: true },
    needsSpool: true,
    // more than ten full batches, whose files may be numbered
    play: (play) => playKills(play, [1200, 50]),
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
      await play.restart(0, { flushMs: 20 })
      await play.quiet(500, 'although the process before it had nothing left')
      await play.finish({})
    },
  },
  {
    id: 'spool-chdir',
    rule: 'A relative spool directory is resolved at the start, even if the program changes its working directory later.',
    expected: 'after INGEST_CHDIR and a kill, all events of `taken` lines from the spool of the start',
    settings: { hasSpool: true, changesDirectory: true },
    needsSpool: true,
    play: (play) => playKills(play, [150]),
  },
  {
    id: 'spool-bound',
    rule: 'Limit the queue, not the attempts, and count what it drops.',
    expected: 'of 100 events of 50,000 bytes in a spool and a limit of 3,000,000 bytes, 50 to 70 kept',
    settings: { ...settings, queueBytes: 3_000_000, closeMs: 500 },
    needsSpool: true,
    play: (play) => playFull(play, makeLargeEvents(100), { least: 30, most: 50 }),
  },
  {
    id: 'spool-damaged',
    rule: 'A damaged file of the spool costs the damaged events, which count as `damaged`: all others are sent.',
    expected: 'all events but one that is cut in its file, in order, and that one counted as `damaged`',
    settings: { hasSpool: true },
    needsSpool: true,
    async play(play) {
      play.send(makeEvents(250).map((event) => ({ ...event, text: `event-${event.n}-` })))
      await expectTaken(play, 250)
      // no batch gets a response, so the program changes no file meanwhile
      await cutLine(play.spool, 'event-50-')
      await play.restart('any')
      play.serve((exchange) => exchange.accept())
      const { dropped } = await play.end()
      await expectEach(
        play,
        numbers(250).filter((n) => n !== 50),
      )
      if (dropped.damaged !== 1) throw new BrokenRule(`${JSON.stringify(dropped)} as dropped events`)
    },
  },
  {
    id: 'spool-deleted',
    rule: deletedRule,
    expected: 'after the directory was deleted and a further event was taken, all events in order after a kill',
    settings: { hasSpool: true },
    needsSpool: true,
    async play(play) {
      play.send(makeEvents(150))
      await expectTaken(play, 150)
      await rm(play.spool, { recursive: true })
      play.send(makeEvents(1, 150))
      await expectTaken(play, 151)
      await play.restart('any')
      play.serve((exchange) => exchange.accept())
      await play.end()
      await expectEach(play, numbers(151))
    },
  },
  {
    id: 'spool-deleted-close',
    rule: deletedRule,
    expected: 'after the directory was deleted, as many events as `close` has counted as `unsent`',
    settings: { hasSpool: true, closeMs: 300 },
    needsSpool: true,
    async play(play) {
      play.send(makeEvents(150))
      await expectTaken(play, 150)
      await rm(play.spool, { recursive: true })
      // the first batch has no response yet
      const { unsent } = await play.end()
      await play.restart(unsent, { closeMs: 600_000 })
      await play.finish({ accepted: unsent })
    },
  },
  {
    id: 'spool-moved',
    rule: lockRule,
    expected: 'no event lost of a second program that has made the directory again after it was moved away',
    settings,
    needsSpool: true,
    async play(play) {
      // more than a file of the spool may hold
      play.send(makeLargeEvents(40))
      await expectTaken(play, 40)
      const first = await play.next()
      await rename(play.spool, join(`${play.spool}-elsewhere`, 'moved'))
      const second = await play.startAnother()
      second.send(makeEvents(5, 100))
      if (!(await second.takes(5))) return
      play.serve((exchange) => (numbersOf(exchange).includes(100) ? undefined : exchange.accept()))
      await first.accept()
      await play.exit()
      await second.kill()
      await expectAfterRestart(play, numbers(5, 100))
    },
  },
  {
    id: 'spool-lock',
    rule: lockRule,
    expected: 'a second program on the spool that ends with an error, or sends none of the events of the first',
    settings: { ...settings, closeMs: 1000 },
    needsSpool: true,
    play: (play) => playSecond(play),
  },
  {
    id: 'spool-frozen',
    rule: lockRule,
    expected: 'no event lost without a count if the first program is stopped for 12 seconds while a second one starts',
    settings: { ...settings, closeMs: 500 },
    needsSpool: true,
    play: (play) => playSecond(play, play.freezer()),
  },
]

/** Kills the program after each of these counts of events, and expects all events from the last run, in order. */
async function playKills(play: Play, counts: readonly number[]): Promise<void> {
  let taken = 0
  for (const count of counts) {
    play.send(makeEvents(count, taken))
    await expectTaken(play, count)
    await play.restart('any')
    taken += count
  }
  play.serve((exchange) => exchange.accept())
  await play.end()
  await expectEach(play, numbers(taken))
}

/** Starts a second program on the spool of the first, which is stopped or has a request in flight. */
async function playSecond(play: Play, freezer?: Freezer): Promise<void> {
  play.send(makeEvents(5))
  await expectTaken(play, 5)
  freezer?.freeze()
  // longer than a lock by heartbeat may last
  if (freezer) await sleep(12_000)
  const inFlight: Exchange[] = []
  play.serve((exchange) => {
    const numbers = numbersOf(exchange)
    // the last events of the second program stay in the spool
    if (freezer) return numbers.some((n) => n >= 105) ? exchange.respond(503) : exchange.accept()
    if (!numbers.includes(0)) return exchange.accept()
    if (inFlight.push(exchange) === 2) play.breakRule('two programs sent the same events')
  })
  const second = await play.startAnother({ isIsolated: true })
  second.flush(makeEvents(5, 100))
  second.send(makeEvents(5, 105))
  const isTaken = await second.takes(10)
  await second.exit()
  freezer?.thaw()
  for (const exchange of inFlight) await exchange.accept()
  play.send(makeEvents(10, 200))
  const isKept = await play.takes(15)
  const { counts } = await play.exit()
  const all = [...numbers(5), ...(isTaken ? numbers(10, 100) : []), ...(isKept ? numbers(10, 200) : [])]
  await expectAfterRestart(play, all, counts && totalOf(counts.dropped))
}

async function expectTaken(play: Play, count: number): Promise<void> {
  if (!(await play.takes(count))) throw new BrokenRule(`the program ended before it had taken ${count} events`)
}

/** Cuts off the end of the line with this text, in any file of the spool. */
async function cutLine(spool: string, text: string): Promise<void> {
  const entries = await readdir(spool, { recursive: true, withFileTypes: true })
  for (const entry of entries.filter((each) => each.isFile())) {
    const path = join(entry.parentPath, entry.name)
    const bytes = await readFile(path)
    const start = bytes.indexOf(text)
    if (start === -1) continue
    const end = bytes.indexOf('\n', start)
    const rest = end === -1 ? [] : [bytes.subarray(end)]
    return writeFile(path, Buffer.concat([bytes.subarray(0, start), ...rest]))
  }
  throw new SkippedRule('no file of the spool has the events as text')
}

function numbersOf({ events }: Exchange): number[] {
  return events.map(({ n }) => Number(n))
}

function numbers(count: number, from = 0): number[] {
  return makeEvents(count, from).map(({ n }) => n)
}

/** Expects that another program stores the missing ones of these events, except dropped ones. */
async function expectAfterRestart(play: Play, expected: readonly number[], dropped = 0): Promise<void> {
  await play.restart('any', { closeMs: 600_000 })
  play.serve((exchange) => exchange.accept())
  await play.end()
  const stored = new Set((await play.stored()).map(({ n }) => Number(n)))
  const lost = expected.filter((n) => !stored.has(n))
  if (lost.length > dropped) throw new BrokenRule(`${lost.length} events were lost, such as ${lost[0]}`)
}

/** Expects that these events are stored, each once and in order. */
async function expectEach(play: Play, expected: readonly number[]): Promise<void> {
  const stored = (await play.stored()).map(({ n }) => Number(n))
  const present = new Set(stored)
  const lost = expected.find((n) => !present.has(n))
  if (lost !== undefined) throw new BrokenRule(`event ${lost} was lost`)
  const wrong = stored.findIndex((n, i) => i > 0 && n <= (stored[i - 1] as number))
  if (wrong !== -1) throw new BrokenRule(`event ${stored[wrong]} was stored after event ${stored[wrong - 1]}`)
}
