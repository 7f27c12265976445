import { setTimeout as sleep } from 'node:timers/promises'
import { type Fault, faults } from '../faults.ts'
import { BrokenRule, type Play, pauseBefore } from '../play.ts'
import type { Exchange } from '../scripted-server.ts'
import { makeEvents, type Rule, receive } from './rule.ts'

const hourMs = 3_600_000
const backoffRule =
  'Back off a random time from 0 to a bound that starts at 1 second and doubles to 60, at least `Retry-After`.'
const retryAfterRule = '`Retry-After` is seconds or an HTTP date. Limit it to an hour, and ignore an invalid one.'

/** Rules for the pause before a batch is sent again. */
export const pauseRules: readonly Rule[] = [
  {
    id: 'unauthorized',
    rule: '401, 403: stop sending for 5 minutes, keep the queue, then retry',
    expected: 'no request for 5 minutes after a 401 and a 403, then the same batch and all events of the queue',
    settings: { timeScale: 0.002, flushMs: 20 },
    async play(play) {
      for (const [round, status] of [401, 403].entries()) {
        play.send(makeEvents(1, 3 * round))
        const first = await play.next()
        first.respond(status)
        play.flush(makeEvents(2, 3 * round + 1))
        const retry = await play.retryOf(first, 5 * 60_000)
        await retry.accept()
        await receive(play, 2)
      }
      await play.finish({ accepted: 6 })
    },
  },
  {
    id: 'retry-after-seconds',
    rule: '429: retry the same batch after `Retry-After`',
    expected:
      'a retry after a 429 and a 503, not before the seconds of `Retry-After`, also if further events are flushed',
    settings: { timeScale: 0.05, flushMs: 20 },
    async play(play) {
      play.send(makeEvents(1))
      let exchange = await play.next()
      for (const [n, status] of [429, 503].entries()) {
        exchange.respond(status, { 'Retry-After': '10' })
        // the program reads no further event during a flush
        if (n === 0) play.send(makeEvents(1, 1))
        else play.flush(makeEvents(1, 2))
        exchange = await play.retryOf(exchange, 10_000)
      }
      await exchange.accept()
      await play.finish({ accepted: 3 })
    },
  },
  {
    id: 'retry-after-date',
    rule: retryAfterRule,
    expected: 'a retry not before the date of `Retry-After`, also where the local time is 14 hours from UTC',
    settings: { timeScale: 0.05 },
    play: (play) => pauseAfter(play, [inDate(429, 12_000), inDate(503, 12_000)]),
  },
  {
    id: 'retry-after-bound',
    rule: retryAfterRule,
    expected: 'a retry after an hour if `Retry-After` is a year',
    settings: { timeScale: 0.0001 },
    play: (play) =>
      pauseAfter(play, [
        { status: 429, retryAfter: () => String((365 * 24 * hourMs) / 1000), leastMs: hourMs },
        { ...inDate(503, 365 * 24 * hourMs), leastMs: hourMs },
      ]),
  },
  {
    id: 'retry-after-invalid',
    rule: retryAfterRule,
    expected: 'the pause of the backoff if `Retry-After` is neither seconds nor a date, or a date that has passed',
    settings: { timeScale: 0.005 },
    play: (play) =>
      pauseAfter(play, [
        ...['soon', '', '-5', '-3600', 'NaN', 'Infinity', '1e9', '0x0e10', '3600 x', '3600.5', '+3600'].map(ignored),
        ...['60 minutes', '3600, 3600', 'PT1H', 'Thu, 01 Jan 2099', '2099-01-01T00:00:00Z'].map(ignored),
        { ...inDate(503, -hourMs), mostMs: ignoredMsMax },
      ]),
  },
  {
    id: 'backoff',
    rule: backoffRule,
    expected: 'random pauses that grow with each attempt, also after connections that are reset',
    settings: { timeScale: 0.01 },
    async play(play) {
      let seen: string | undefined
      for (let tries = 0; tries < 4; tries++) {
        seen = judgeBackoff(await failBatch(play, tries, growing + bounded))
        if (seen === undefined) return play.finish({ accepted: tries + 1 })
      }
      throw new BrokenRule(seen as string)
    },
  },
  {
    id: 'refused',
    rule: backoffRule,
    expected: 'pauses while connections are refused',
    settings: { timeScale: 0.5 },
    async play(play) {
      // the bound is 1,000 to 2,000 ms by then: seven random pauses have so short a sum once in 10,000 runs
      let waitedMs = 0
      for (let n = 0; n < 7; n++) {
        play.flush(makeEvents(1, n))
        const first = await play.next()
        first.respond(502)
        await play.refuse(1500)
        const listeningAt = performance.now()
        const retry = await play.retryOf(first)
        await retry.accept()
        waitedMs += retry.arrivedAt - listeningAt
        if (waitedMs > 1200) return play.finish({ accepted: n + 1 })
      }
      throw new BrokenRule(
        `requests in ${Math.round(waitedMs)} ms together after connections were accepted again, seven times`,
      )
    },
  },
  {
    id: 'backoff-reset',
    rule: 'Reset the backoff for each batch.',
    expected: 'random pauses of at most 1 second after the first failure of a batch, also after one that failed often',
    // a busy machine takes 40 ms even without a pause
    settings: { timeScale: 0.5 },
    async play(play) {
      await failBatch(play, 0, 4)
      let pauses: number[] = []
      let n = 1
      for (let tries = 0; tries < 3; tries++) {
        pauses = []
        while (pauses.length < 6) pauses.push(...(await failBatch(play, n++, 1)))
        const [, , , fourth = 0] = pauses.toSorted((a, b) => a - b)
        // of six pauses up to 500 ms, four are within 100 ms once in 60 tries; without a reset, they are up to 30,000 ms
        if (fourth > 100 && fourth < 2000) return play.finish({ accepted: n })
      }
      throw new BrokenRule(
        `three times pauses such as ${pauses.map(Math.round).join(', ')} ms, where 1 second is 500 ms`,
      )
    },
  },
  {
    id: 'jitter',
    rule: 'Two processes must not have the same random pauses.',
    expected: 'other pauses in another program that is started in the same second',
    settings: { timeScale: 0.02 },
    async play(play) {
      await sleep(1000 - (Date.now() % 1000))
      const programs = await Promise.all([play.startAnother(), play.startAnother()])
      let pauses: number[][] = []
      for (let tries = 0; tries < 3; tries++) {
        programs.forEach((program, i) => {
          program.flush(makeEvents(1, 2 * tries + i))
        })
        pauses = await failTwo(play)
        const [own = [], other = []] = pauses
        const isEqual = (ms: number, i: number) => Math.abs(ms - (other[i] ?? 0)) < 120
        // by chance, four of six are equal within a tenth of their bound once in 70 pairs
        if (own.filter(isEqual).length >= 4) continue
        for (const program of programs) await program.exit()
        return play.finish({})
      }
      throw new BrokenRule(
        `three times the same pauses: ${pauses.map((each) => each.map(Math.round)).join(' and ')} ms`,
      )
    },
  },
  {
    id: 'attempts',
    rule: 'Limit the queue, not the attempts, and count what it drops.',
    expected: '110 attempts with pauses of at most 60 seconds, and the events still not dropped',
    settings: { timeScale: 0.00002 },
    async play(play) {
      play.flush(makeEvents(1))
      let exchange = await play.next()
      for (let attempt = 0; attempt < 110; attempt++) {
        await exchange.inject([faults[503], faults[500], faults[404], faults['reset before']][attempt % 4] as Fault)
        exchange = await play.retryOf(exchange)
      }
      await exchange.accept()
      await play.finish({ accepted: 1 })
    },
  },
]

interface Pause {
  status: number
  /** The value of the header at the time of sending. */
  retryAfter(): string
  /** The shortest and the longest pause, in sender time. */
  leastMs?: number
  mostMs?: number
}

/** A `Retry-After` with a date that is `ms` ahead, rounded up to a second. */
function inDate(status: number, ms: number): Pause {
  const date = () => Math.ceil((Date.now() + ms) / 1000) * 1000
  return { status, retryAfter: () => new Date(date()).toUTCString(), leastMs: Math.max(0, ms) }
}

/** Less than an hour, and far more than any backoff, so that a busy machine may be late. */
const ignoredMsMax = 0.9 * hourMs

/** An invalid `Retry-After`, which must not be read as an hour or more, not even in part or leniently. */
function ignored(value: string): Pause {
  return { status: 503, retryAfter: () => value, mostMs: ignoredMsMax }
}

async function pauseAfter(play: Play, pauses: readonly Pause[]): Promise<void> {
  play.flush(makeEvents(1))
  let exchange = await play.next()
  for (const { status, retryAfter, leastMs, mostMs } of pauses) {
    exchange.respond(status, { 'Retry-After': retryAfter() })
    exchange = await play.retryOf(exchange, leastMs, mostMs)
  }
  await exchange.accept()
  await play.finish({ accepted: 1 })
}

/** Fails a batch that many times before it is stored, with a 502 and a reset in turn. Resolves with the pauses between. */
async function failBatch(play: Play, n: number, failures: number): Promise<number[]> {
  play.flush(makeEvents(1, n))
  let exchange = await play.next()
  const pauses: number[] = []
  while (pauses.length < failures) {
    // a request on a kept connection that is reset may be sent again at once
    if (pauses.length % 2 === 0) exchange.respond(502, { Connection: 'close' })
    else await exchange.inject(faults['reset before'])
    const retry = await play.retryOf(exchange)
    pauses.push(pauseBefore(retry, exchange))
    exchange = retry
  }
  await exchange.accept()
  return pauses
}

/** Fails a batch of each of two programs twelve times. Resolves with the last pauses of each, up to 60 seconds. */
async function failTwo(play: Play): Promise<number[][]> {
  const attempts: [Exchange[], Exchange[]] = [[], []]
  for (let requests = 0; requests < 26; requests++) {
    const exchange = await play.next()
    const own = attempts[Number(exchange.events[0]?.n) % 2] ?? []
    if (own.push(exchange) === 13) await exchange.accept()
    else exchange.respond(503)
  }
  return attempts.map((own) => own.slice(7).map((retry, i) => pauseBefore(retry, own[i + 6] as Exchange)))
}

/** The number of pauses before the bound of 60 seconds is reached, and after. */
const growing = 6
const bounded = 6

/** What is wrong with the pauses of one batch; undefined if nothing is. */
function judgeBackoff(pauses: readonly number[]): string | undefined {
  for (const fault of [0, 1]) {
    const last = pauses.filter((_, i) => i >= growing && i % 2 === fault)
    const mean = last.reduce((sum, ms) => sum + ms, 0) / last.length
    // three random pauses up to 600 ms have a mean below 90 ms once in 60 batches, and are within 12 ms more rarely
    if (mean >= 90 && Math.max(...last) - Math.min(...last) >= 12) continue
    return `pauses of ${pauses.map(Math.round).join(', ')} ms, where the bound of 60 seconds is 600 ms`
  }
  return undefined
}
