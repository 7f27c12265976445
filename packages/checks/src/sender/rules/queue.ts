import { setTimeout as sleep } from 'node:timers/promises'
import type { JsonObject } from '@ingest/core/internal'
import type { Counts } from '../counts.ts'
import { faults } from '../faults.ts'
import { BrokenRule, type Play } from '../play.ts'
import type { Exchange } from '../scripted-server.ts'
import { makeEvents, type Rule } from './rule.ts'

/** Rules for when events are sent, and for what is counted. */
export const queueRules: readonly Rule[] = [
  {
    id: 'outcomes',
    rule: '202: done; log rejected events, do not resend them unchanged',
    expected:
      'accepted, duplicate and rejected events counted as the result says, and sent once, also if all are rejected',
    async play(play) {
      play.flush(makeEvents(4))
      ;(await play.next()).respond(202, json, resultOf({ accepted: 2, duplicates: 1, rejected: [1] }))
      play.flush(makeEvents(3, 4))
      const second = await play.next()
      expectEvents(second, [4, 5, 6])
      second.respond(202, json, resultOf({ accepted: 0, duplicates: 0, rejected: [0, 1, 2] }))
      play.flush(makeEvents(1, 7))
      const third = await play.next()
      expectEvents(third, [7])
      await third.accept()
      await play.finish({ accepted: 3, duplicates: 1, rejected: 4 })
    },
  },
  {
    id: 'trickle',
    rule: 'Send a batch when it is full, when its first event has waited long enough, on `flush` and on `close`.',
    expected: 'a request after INGEST_FLUSH_MS although further events keep coming, one at a time',
    settings: { flushMs: 800 },
    async play(play) {
      play.flush(makeEvents(1))
      await (await play.next()).accept()
      let given = 1
      let hasRequest = false
      play.serve((exchange) => {
        hasRequest = true
        return exchange.accept()
      })
      for (; !hasRequest; given++) {
        if (given === 90) throw new BrokenRule('no request arrived while events came every 40 ms')
        play.send(makeEvents(1, given))
        await sleep(40)
      }
      await play.finish({ accepted: given })
    },
  },
  {
    id: 'flush-empty',
    rule: 'An empty line is `flush`: the program reads on when everything before it is stored or dropped.',
    expected: 'an end of a flush without events, at the start and after a batch',
    async play(play) {
      for (let n = 0; n < 2; n++) {
        play.flush()
        play.flush()
        play.flush(makeEvents(1, n))
        await (await play.next()).accept()
      }
      play.flush()
      await play.finish({ accepted: 2 })
    },
  },
  {
    id: 'batching',
    rule: 'Send a batch when it is full, when its first event has waited long enough, on `flush` and on `close`.',
    expected: 'a request for 100 events, for 262,144 bytes, and for one event after INGEST_FLUSH_MS',
    async play(play) {
      play.send(makeEvents(100))
      await (await play.next()).accept()
      play.send(makeEvents(4, 100).map((event) => ({ ...event, text: 'x'.repeat(80_000) })))
      await (await play.next()).accept()
      await play.finish({ accepted: 104 })
      await play.restart(0, { flushMs: 50 })
      play.send(makeEvents(1, 104))
      await (await play.next()).accept()
      await play.finish({ accepted: 1 })
    },
  },
  {
    id: 'flush',
    rule: 'An empty line is `flush`: the program reads on when everything before it is stored or dropped.',
    expected: 'the events before the empty line at once, and those behind it taken when they are settled',
    async play(play) {
      play.flush(makeEvents(3))
      play.flush(makeEvents(1, 3))
      const first = await play.next()
      expectEvents(first, [0, 1, 2])
      first.respond(503)
      const retry = await play.retryOf(first)
      let isSettled = false
      const check = () =>
        isSettled || play.breakRule('an event behind the flush was taken before its events were settled')
      play.takes(4).then(check, () => {})
      await play.quiet(200, 'before the events of the flush were settled')
      isSettled = true
      await retry.accept()
      const second = await play.next()
      expectEvents(second, [3])
      await second.accept()
      await play.finish({ accepted: 4 })
    },
  },
  {
    id: 'order',
    rule: 'Send at most 100 events and 262,144 bytes in a batch, one batch at a time, in order.',
    expected: 'events stored in the order in which they were given, whatever fails in between',
    settings: { flushMs: 20 },
    async play(play) {
      play.send(makeEvents(250))
      for (const fault of [faults[503], faults['reset after'], faults['cut after']]) {
        await (await play.next()).inject(fault)
        await (await play.next()).accept()
      }
      await finishStored(play, 250)
    },
  },
  {
    id: 'one-in-flight',
    rule: 'Send at most 100 events and 262,144 bytes in a batch, one batch at a time, in order.',
    expected: 'no request before the response to the one before it',
    settings: { flushMs: 20 },
    async play(play) {
      play.send(makeEvents(350))
      for (let round = 0; round < 3; round++) {
        const exchange = await play.next()
        await play.quiet(200, 'before the response to the one before it')
        await exchange.accept()
      }
      await finishStored(play, 350)
    },
  },
  {
    id: 'queue-bound',
    rule: 'Limit the queue, not the attempts, and count what it drops.',
    expected: 'of 300 events that cannot be sent, 50 to 150 kept, and the others dropped as `queue_overflow`',
    settings: { flushMs: 20, queueEvents: 50, closeMs: 500 },
    // a sender may hold the batch in flight in addition to the queue
    play: (play) => playFull(play, makeEvents(300), { least: 150, most: 250 }),
  },
  {
    id: 'queue-bytes',
    rule: 'Limit the queue, not the attempts, and count what it drops.',
    expected: 'of 60 events of 50,000 bytes and a limit of 1,000,000 bytes, 10 to 26 kept, the others `queue_overflow`',
    settings: { flushMs: 20, queueBytes: 1_000_000, closeMs: 500 },
    play: (play) => playFull(play, makeLargeEvents(60), { least: 34, most: 50 }),
  },
  {
    id: 'close-deadline',
    rule: 'At the end of its input, the program closes the sender, which sends what is left until INGEST_CLOSE_MS.',
    expected:
      'an end at the deadline, also during a request, a response and the pause after a 401, with the events as `closed`',
    settings: { timeScale: 1, timeoutMs: 600_000, closeMs: 300 },
    async play(play) {
      const responses: ((exchange: Exchange) => void)[] = [
        () => {},
        ({ res }) => res.writeHead(202).flushHeaders(),
        (exchange) => exchange.respond(401),
      ]
      for (const [n, respond] of responses.entries()) {
        if (n > 0) await play.restart()
        play.send(makeEvents(3))
        play.serve(respond)
        expectClosed(await play.end(), 3)
      }
    },
  },
  {
    id: 'close-drains',
    rule: 'At the end of its input, the program closes the sender, which sends what is left until INGEST_CLOSE_MS.',
    expected: 'all events stored, also if the first attempt fails',
    async play(play) {
      play.send(makeEvents(250))
      let attempts = 0
      play.serve((exchange) => (++attempts === 1 ? exchange.respond(503) : exchange.accept()))
      const { accepted } = await play.end()
      if (accepted !== 250) throw new BrokenRule(`${accepted} of 250 events`)
      await expectStored(play, 250)
    },
  },
]

const json = { 'Content-Type': 'application/json' }

/** A result with these counts and the events at these indexes rejected. */
function resultOf({ rejected, ...counts }: { accepted: number; duplicates: number; rejected: number[] }): string {
  const issues = [{ code: 'required', path: '/type', message: 'Required.' }]
  return JSON.stringify({ ...counts, rejected: rejected.map((index) => ({ index, eventId: null, issues })) })
}

/** Events of slightly more than 50,000 bytes each. */
export function makeLargeEvents(count: number): JsonObject[] {
  return makeEvents(count).map((event) => ({ ...event, text: 'x'.repeat(50_000) }))
}

/** Gives events that cannot be sent, and expects that a full queue drops between `least` and `most` of them. */
export async function playFull(
  play: Play,
  events: readonly JsonObject[],
  { least, most }: { least: number; most: number },
): Promise<void> {
  play.send(events)
  play.serve((exchange) => exchange.respond(503))
  const { dropped, accepted, duplicates } = await play.end()
  const { queue_overflow: ofQueue = 0, spool_overflow: ofSpool = 0 } = dropped
  const overflow = ofQueue + ofSpool
  if (overflow < least || overflow > most || accepted + duplicates > 0)
    throw new BrokenRule(`${overflow} events dropped by a full queue, of ${JSON.stringify(dropped)}`)
}

function expectEvents({ events }: Exchange, expected: readonly number[]): void {
  const numbers = events.map(({ n }) => n)
  if (numbers.join() !== expected.join()) throw new BrokenRule(`a batch of the events ${numbers.join(', ')}`)
}

function expectClosed({ dropped }: Counts, count: number): void {
  if (dropped.closed !== count) throw new BrokenRule(`dropped events: ${JSON.stringify(dropped)}`)
}

async function finishStored(play: Play, count: number): Promise<void> {
  play.serve((exchange) => exchange.accept())
  await play.end()
  await expectStored(play, count)
}

/** Expects that the events 0 to `count` - 1 are stored, each once and in order. */
async function expectStored(play: Play, count: number): Promise<void> {
  const numbers = (await play.stored()).map(({ n }) => n)
  if (numbers.length !== count) throw new BrokenRule(`${numbers.length} of ${count} events were stored`)
  const wrong = numbers.findIndex((n, i) => n !== i)
  if (wrong !== -1) throw new BrokenRule(`event ${numbers[wrong]} was stored as number ${wrong}`)
}
