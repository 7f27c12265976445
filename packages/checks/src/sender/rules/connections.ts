import { setTimeout as sleep } from 'node:timers/promises'
import type { Fault } from '../faults.ts'
import { BrokenRule, type Play } from '../play.ts'
import type { Exchange } from '../scripted-server.ts'
import { makeEvents, type Rule } from './rule.ts'

const interimRule = 'An interim response (1xx) does not count: wait for the final one.'

/** Rules for connections that a server closes or misuses. */
export const connectionRules: readonly Rule[] = [
  {
    id: 'interim',
    rule: interimRule,
    expected: 'the final response used after 102 and 103, one and several, with or in front of it',
    play: (play) => playInterim(play, [[102], [103], [103, 103, 102]]),
  },
  {
    id: 'interim-100',
    rule: interimRule,
    expected: 'the final response used after a 100 that was not asked for',
    play: (play) => playInterim(play, [[100], [100, 103]]),
  },
  {
    id: 'idle-connection',
    rule: 'A server may close an idle connection at any time: a request on it is not a failed attempt.',
    expected: 'no pause because of a connection that the server has closed after a response',
    settings: { timeScale: 0.5 },
    async play(play) {
      for (let n = 0; n < 8; n++) {
        play.flush(makeEvents(1, n))
        const first = await play.next()
        expectSoon(first)
        first.respond(503)
        first.endConnection()
        const retry = await play.retryOf(first)
        expectSoon(retry)
        await retry.accept()
        retry.endConnection()
        await play.quiet(50, 'after the last event')
      }
      await play.finish({ accepted: 8 })
    },
  },
  {
    id: 'drop-connection',
    rule: 'Close the connection after a response other than 202',
    expected: 'the batch after a 400 and a 413 accepted, although each connection gets a 400 to the rest of the body',
    async play(play) {
      for (const [i, status] of [400, 413].entries()) {
        play.send(makeEvents(200, 200 * i))
        const refused = await play.next()
        const { socket } = refused.res
        // the next batch is due: a server may close an idle connection
        await play.takes(200 * (i + 1))
        refused.respond(status)
        const next = await play.next()
        // a proxy that did not read the refused body takes the rest of it for this request
        if (next.res.socket === socket) next.respond(400)
        else await next.accept()
      }
      await play.finish({ accepted: 200, dropped: { bad_request: 100, too_large: 100 } })
    },
  },
  {
    id: 'unsolicited',
    rule: 'A response that arrives before its request is not that to the request: use another connection.',
    expected: 'each batch sent again after its own 503, although the 202 before it came twice',
    async play(play) {
      // large events: each is a batch, and is due when the one before is stored
      const count = 12
      play.flush(makeEvents(count).map((event) => ({ ...event, text: 'x'.repeat(140_000) })))
      for (let n = 0; n < count; n += 2) {
        await (await nextWith(play, n)).inject(acceptTwice)
        let second = await play.next()
        // the sender may treat bytes that are not HTTP as an error
        if (second.events[0]?.n === n) {
          await second.accept()
          second = await play.next()
        }
        await refuseOnce(play, second, n + 1)
      }
      // the same while the connection is idle
      play.flush(makeEvents(1, count))
      const exchange = await nextWith(play, count)
      await exchange.accept()
      await sleep(50)
      exchange.write(unsolicited)
      await sleep(50)
      play.flush(makeEvents(1, count + 1))
      await refuseOnce(play, await play.next(), count + 1)
      const { accepted, duplicates } = await play.end()
      if (accepted + duplicates !== count + 2)
        throw new BrokenRule(`${accepted} accepted events and ${duplicates} duplicates of ${count + 2}`)
    },
  },
]

const result = '{"accepted":1,"duplicates":0,"rejected":[]}'
/** A response without a request, which looks like the response to the next batch. */
const unsolicited = `HTTP/1.1 202 Accepted\r\nContent-Length: ${result.length}\r\n\r\n${result}`

/** Responds to a batch twice, with an error and as Ingest does, after each series of interim responses. */
async function playInterim(play: Play, series: readonly (readonly number[])[]): Promise<void> {
  let n = 0
  for (const statuses of series) {
    for (const pauseMs of [0, 20]) {
      play.flush(makeEvents(1, n))
      let exchange = await nextWith(play, n)
      await sendInterim(exchange, statuses, pauseMs)
      exchange.respond(503)
      exchange = await nextWith(play, n)
      await sendInterim(exchange, statuses, pauseMs)
      await exchange.accept()
      n++
    }
  }
  await play.finish({ accepted: n })
}

/** Accepts a batch, with a second 202 in the same packet. */
const acceptTwice: Fault = async (res, { store }) => {
  const first = JSON.stringify(await store())
  res.writeHead(202, { 'Content-Length': first.length }).end(first + unsolicited)
}

/** Responds to the batch of this event with a 503, and accepts it when it comes again. */
async function refuseOnce(play: Play, exchange: Exchange, n: number): Promise<void> {
  expectEvent(exchange, n)
  exchange.respond(503)
  await (await play.retryOf(exchange)).accept()
}

/** The next request, which must hold only this event. */
async function nextWith(play: Play, n: number): Promise<Exchange> {
  const exchange = await play.next()
  expectEvent(exchange, n)
  return exchange
}

function expectEvent(exchange: Exchange, n: number): void {
  const numbers = exchange.events.map((event) => event.n)
  if (numbers.join() !== String(n)) throw new BrokenRule(`a batch of the events ${numbers.join(', ')} in place of ${n}`)
}

/** Writes an interim head for each status before the response, in a packet of its own after a pause. */
async function sendInterim({ res }: Exchange, statuses: readonly number[], pauseMs: number): Promise<void> {
  for (const status of statuses) {
    res.socket?.write(`HTTP/1.1 ${status} Interim\r\nLink: </style.css>; rel=preload\r\n\r\n`)
    if (pauseMs > 0) await sleep(pauseMs)
  }
}

/** Expects that a lost request was repeated without backoff. */
function expectSoon({ arrivedAt, lostAt = arrivedAt }: Exchange): void {
  const lostMs = arrivedAt - lostAt
  // a backoff takes up to 500 or 1,000 ms here
  if (lostMs > 200)
    throw new BrokenRule(`a request was lost on the closed connection, and came ${Math.round(lostMs)} ms later`)
}
