import { setTimeout as sleep } from 'node:timers/promises'
import type { Counts } from '../counts.ts'
import { faults } from '../faults.ts'
import { BrokenRule, type Play } from '../play.ts'
import type { Exchange } from '../scripted-server.ts'
import { makeEvents, type Rule } from './rule.ts'

/** When events are sent, and what is counted. */
export const queueRules: readonly Rule[] = [
  {
    id: 'outcomes',
    rule: '202: done; log rejected events, do not resend them unchanged',
    expected: 'accepted, duplicate and rejected events counted as the result says, and sent once',
    async play(play) {
      play.flush(makeEvents(4))
      const exchange = await play.next()
      const rejected = [
        { index: 1, eventId: null, issues: [{ code: 'required', path: '/type', message: 'Required.' }] },
      ]
      const result = JSON.stringify({ accepted: 2, duplicates: 1, rejected })
      exchange.respond(202, { 'Content-Type': 'application/json' }, result)
      play.flush(makeEvents(1, 4))
      const next = await play.next()
      if (next.events[0]?.n !== 4) throw new BrokenRule('the batch was sent again after its result')
      await next.accept()
      await play.finish({ accepted: 3, duplicates: 1, rejected: 1 })
    },
  },
  {
    id: 'all-rejected',
    rule: '202: done; log rejected events, do not resend them unchanged',
    expected: 'the next batch after one of which all events were rejected',
    async play(play) {
      play.flush(makeEvents(3))
      const rejected = [0, 1, 2].map((index) => ({ index, eventId: null, issues: [] }))
      const result = JSON.stringify({ accepted: 0, duplicates: 0, rejected })
      ;(await play.next()).respond(202, { 'Content-Type': 'application/json' }, result)
      play.flush(makeEvents(1, 3))
      const next = await play.next()
      expectEvents(next, [3])
      await next.accept()
      await play.finish({ accepted: 1, rejected: 3 })
    },
  },
  {
    id: 'trickle',
    rule: 'Send a batch when it is full, when its first event has waited, on `flush` and on `close`.',
    expected: 'a request after INGEST_FLUSH_MS although further events keep coming, one at a time',
    settings: { flushMs: 800 },
    async play(play) {
      play.flush(makeEvents(1))
      await (await play.next()).accept()
      let given = 1
      for (; !play.hasRequest(); given++) {
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
    rule: 'Send a batch when it is full, when its first event has waited, on `flush` and on `close`.',
    expected: 'a request for 100 events, for 262,144 bytes, and for one event after INGEST_FLUSH_MS',
    async play(play) {
      play.send(makeEvents(100))
      await (await play.next()).accept()
      play.send(makeEvents(4, 100).map((event) => ({ ...event, text: 'x'.repeat(80_000) })))
      await (await play.next()).accept()
      await play.finish({ accepted: 104 })
      await play.restart({ flushMs: 50 }, 0)
      play.send(makeEvents(1, 104))
      await (await play.next()).accept()
      await play.finish({ accepted: 1 })
    },
  },
  {
    id: 'flush',
    rule: 'An empty line is `flush`: the program reads on when everything before it is stored or dropped.',
    expected: 'the events before the empty line at once, and those behind it when they are settled',
    async play(play) {
      play.flush(makeEvents(3))
      play.flush(makeEvents(1, 3))
      const first = await play.next()
      expectEvents(first, [0, 1, 2])
      first.respond(503)
      const retry = await play.retryOf(first)
      await play.quiet(200, 'before the events of the flush were settled')
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
    async play(play) {
      play.send(makeEvents(300))
      play.serve((exchange) => exchange.respond(503))
      const { dropped, accepted, duplicates, unsent } = await play.end()
      const { queue_overflow: overflow = 0 } = dropped
      // the batch in flight may count beside the queue
      const isBounded = overflow >= 150 && overflow <= 250 && accepted + duplicates + unsent === 0
      if (!isBounded)
        throw new BrokenRule(`${overflow} events dropped as queue_overflow, of ${JSON.stringify(dropped)}`)
    },
  },
  {
    id: 'queue-bytes',
    rule: 'Limit the queue, not the attempts, and count what it drops.',
    expected: 'of 60 events of 50,000 bytes and a limit of 1,000,000 bytes, 10 to 26 kept, the others `queue_overflow`',
    settings: { flushMs: 20, queueBytes: 1_000_000, closeMs: 500 },
    async play(play) {
      play.send(makeEvents(60).map((event) => ({ ...event, text: 'x'.repeat(50_000) })))
      play.serve((exchange) => exchange.respond(503))
      const { dropped } = await play.end()
      const { queue_overflow: overflow = 0 } = dropped
      if (overflow < 34 || overflow > 50)
        throw new BrokenRule(`${overflow} events dropped as queue_overflow, of ${JSON.stringify(dropped)}`)
    },
  },
  {
    id: 'close-deadline',
    rule: 'At the end of its input, the program closes the sender, which sends what is left until INGEST_CLOSE_MS.',
    expected:
      'an end at the deadline, also during a request, a response and the pause after a 401, with the events as `closed`',
    settings: { timeScale: 1, timeoutMs: 600_000, closeMs: 300 },
    async play(play) {
      const settings = { timeScale: 1, timeoutMs: 600_000, closeMs: 300 }
      const responses: ((exchange: Exchange) => void)[] = [
        () => {},
        ({ res }) => res.writeHead(202).flushHeaders(),
        (exchange) => exchange.respond(401),
      ]
      for (const [n, respond] of responses.entries()) {
        if (n > 0) await play.restart(settings, 0)
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

/** Expects the events 0 to `count` - 1, each once and in order. */
async function expectStored(play: Play, count: number): Promise<void> {
  const numbers = (await play.stored()).map(({ n }) => n)
  if (numbers.length !== count) throw new BrokenRule(`${numbers.length} of ${count} events were stored`)
  const wrong = numbers.findIndex((n, i) => n !== i)
  if (wrong !== -1) throw new BrokenRule(`event ${numbers[wrong]} was stored as number ${wrong}`)
}
