import { setTimeout as sleep } from 'node:timers/promises'
import { BrokenRule, type Play } from '../play.ts'
import type { Exchange } from '../scripted-server.ts'
import { makeEvents, type Rule } from './rule.ts'

const interimRule = 'An interim response (1xx) does not count: wait for the final one.'

/** What a server may do with a connection. */
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
        // a proxy that did not read the refused body takes its rest for this request
        if (next.res.socket === socket) next.respond(400)
        else await next.accept()
      }
      await play.finish({ accepted: 200, dropped: { bad_request: 100, too_large: 100 } })
    },
  },
]

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

/** The next request, which has to hold this event alone. */
async function nextWith(play: Play, n: number): Promise<Exchange> {
  const exchange = await play.next()
  const numbers = exchange.events.map((event) => event.n)
  if (numbers.join() !== String(n)) throw new BrokenRule(`a batch of the events ${numbers.join(', ')} in place of ${n}`)
  return exchange
}

/** Writes a head for each status, which goes before the response, in a packet of its own after a pause. */
async function sendInterim({ res }: Exchange, statuses: readonly number[], pauseMs: number): Promise<void> {
  for (const status of statuses) {
    res.socket?.write(`HTTP/1.1 ${status} Interim\r\nLink: </style.css>; rel=preload\r\n\r\n`)
    if (pauseMs > 0) await sleep(pauseMs)
  }
}

/** Expects that a request that was lost came again without a backoff. */
function expectSoon({ arrivedAt, lostAt = arrivedAt }: Exchange): void {
  const lostMs = arrivedAt - lostAt
  // a backoff takes up to 500 or 1,000 ms here
  if (lostMs > 200)
    throw new BrokenRule(`a request was lost on the closed connection, and came ${Math.round(lostMs)} ms later`)
}
