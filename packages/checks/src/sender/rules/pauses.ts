import { type Fault, faults } from '../faults.ts'
import { BrokenRule, type Play } from '../play.ts'
import { otherStatuses } from './retries.ts'
import { makeEvents, type Rule, receive } from './rule.ts'

const hourMs = 3_600_000
const jitterSettings = { timeScale: 0.02 }

/** How long a sender waits before it sends a batch again. */
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
        play.send(makeEvents(2, 3 * round + 1))
        const retry = await play.retryAfter(first, 5 * 60_000)
        await retry.accept()
        await receive(play, 2)
      }
      await play.finish({ accepted: 6 })
    },
  },
  {
    id: 'retry-after-seconds',
    rule: '429: retry the same batch after `Retry-After`',
    expected: 'a retry after a 429 and a 503, not before the seconds of `Retry-After`',
    settings: { timeScale: 0.05 },
    play: (play) =>
      pauseAfter(
        play,
        [429, 503].map((status) => ({ status, retryAfter: () => '10', pauseMs: () => 10_000 })),
      ),
  },
  {
    id: 'retry-after-date',
    rule: '`Retry-After` is seconds or an HTTP date. Limit it to an hour, and ignore an invalid one.',
    expected: 'a retry not before the date of `Retry-After`, and soon if it has passed',
    settings: { timeScale: 0.05 },
    play: (play) => pauseAfter(play, [inDate(429, 12_000), inDate(503, 12_000), inDate(503, -hourMs)]),
  },
  {
    id: 'retry-after-bound',
    rule: '`Retry-After` is seconds or an HTTP date. Limit it to an hour, and ignore an invalid one.',
    expected: 'a retry after an hour if `Retry-After` is a year',
    settings: { timeScale: 0.0001 },
    play: (play) =>
      pauseAfter(play, [
        { status: 429, retryAfter: () => String((365 * 24 * hourMs) / 1000), pauseMs: () => hourMs },
        { ...inDate(503, 365 * 24 * hourMs), pauseMs: () => hourMs },
      ]),
  },
  {
    id: 'retry-after-invalid',
    rule: '`Retry-After` is seconds or an HTTP date. Limit it to an hour, and ignore an invalid one.',
    expected: 'a retry if `Retry-After` is neither seconds nor a date',
    play: (play) =>
      pauseAfter(
        play,
        ['soon', '', '-1', '0', 'NaN', 'Infinity', '5 minutes'].map((value) => ({
          status: 503,
          retryAfter: () => value,
          pauseMs: () => 0,
        })),
      ),
  },
  {
    id: 'backoff',
    rule: 'Back off a random time from 0 to a bound that starts at 1 second and doubles to 60, at least `Retry-After`.',
    expected: 'random pauses that grow with each attempt',
    settings: { timeScale: 0.01 },
    async play(play) {
      // by chance alone, one batch in 200 looks wrong
      let seen: string | undefined
      for (let tries = 0; tries < 4; tries++) {
        seen = await judgeBackoff(play, tries)
        if (seen === undefined) return play.finish({ accepted: tries + 1 })
      }
      throw new BrokenRule(seen as string)
    },
  },
  {
    id: 'backoff-reset',
    rule: 'Reset the backoff for each batch.',
    expected: 'pauses of at most 1 second after the first failure of a batch, also after a batch that failed often',
    settings: { timeScale: 0.02 },
    async play(play) {
      const pauses: number[] = []
      for (let n = 0; n < 6; n++) {
        play.flush(makeEvents(1, n))
        let exchange = await play.next()
        for (let failures = n === 0 ? 6 : 1; failures > 0; failures--) {
          exchange.respond(503)
          const retry = await play.retryOf(exchange)
          if (n > 0) pauses.push(retry.arrivedAt - (exchange.respondedAt ?? 0))
          exchange = retry
        }
        await exchange.accept()
      }
      // a bound of 60 seconds is 1,200 ms here: three of five pauses up to 120 ms come once in a hundred runs
      if (pauses.filter((ms) => ms <= 120).length < 3) {
        throw new BrokenRule(`pauses of ${pauses.map(Math.round).join(', ')} ms, where 1 second is 20 ms`)
      }
      await play.finish({ accepted: 6 })
    },
  },
  {
    id: 'jitter',
    rule: 'Two processes must not have the same random pauses.',
    expected: 'other pauses after a restart',
    settings: jitterSettings,
    async play(play) {
      let earlier = await pausesOf(play)
      for (let tries = 0; tries < 2; tries++) {
        await play.finish({ accepted: 1 })
        await play.restart(jitterSettings, 0)
        const pauses = await pausesOf(play)
        const isEqual = (ms: number, i: number) => Math.abs(ms - (earlier[i] ?? 0)) < Math.min(160 * 2 ** i, 1200) / 10
        // by chance, four of six are equal within a tenth of their bounds once in 70 pairs
        if (pauses.filter(isEqual).length < 4) return play.finish({ accepted: 1 })
        earlier = pauses
      }
      throw new BrokenRule(`the same pauses in three processes: ${earlier.map(Math.round).join(', ')} ms`)
    },
  },
  {
    id: 'attempts',
    rule: 'Limit the queue, not the attempts, and count what it drops.',
    expected: '110 attempts, and the events still not dropped',
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
  {
    id: 'retry-after-each',
    rule: 'Back off a random time from 0 to a bound that starts at 1 second and doubles to 60, at least `Retry-After`.',
    expected: 'a retry not before `Retry-After`, with each status after which a batch is sent again at once',
    settings: { timeScale: 0.0005 },
    play: (play) =>
      pauseAfter(
        play,
        [500, 502, 504, 408, 404, 405, 431, ...otherStatuses].map((status) => ({
          status,
          retryAfter: () => '200',
          pauseMs: () => 200_000,
        })),
      ),
  },
  {
    id: 'backoff-bound',
    rule: 'Back off a random time from 0 to a bound that starts at 1 second and doubles to 60, at least `Retry-After`.',
    expected: '30 attempts, with pauses of at most 60 seconds',
    settings: { timeScale: 0.0001 },
    play: (play) =>
      pauseAfter(
        play,
        Array.from({ length: 30 }, () => ({ status: 503, retryAfter: () => undefined, pauseMs: () => 0 })),
      ),
  },
]

/** The fourth to ninth pause of a batch, with bounds of 160, 320, 640 and then 1,200 ms. */
async function pausesOf(play: Play): Promise<number[]> {
  play.flush(makeEvents(1))
  let exchange = await play.next()
  const pauses: number[] = []
  while (pauses.length < 9) {
    exchange.respond(503)
    const retry = await play.retryOf(exchange)
    pauses.push(retry.arrivedAt - (exchange.respondedAt ?? 0))
    exchange = retry
  }
  await exchange.accept()
  return pauses.slice(3)
}

interface Pause {
  status: number
  /** The header, when it is sent. */
  retryAfter(): string | undefined
  /** The shortest pause, of the sender's time. */
  pauseMs(): number
}

/** A `Retry-After` with a date that is `ms` ahead, rounded up to a second. */
function inDate(status: number, ms: number): Pause {
  const date = () => Math.ceil((Date.now() + ms) / 1000) * 1000
  return { status, retryAfter: () => new Date(date()).toUTCString(), pauseMs: () => Math.max(0, ms) }
}

async function pauseAfter(play: Play, pauses: readonly Pause[]): Promise<void> {
  play.flush(makeEvents(1))
  let exchange = await play.next()
  for (const { status, retryAfter, pauseMs } of pauses) {
    const value = retryAfter()
    exchange.respond(status, value === undefined ? {} : { 'Retry-After': value })
    exchange = await play.retryAfter(exchange, pauseMs())
  }
  await exchange.accept()
  await play.finish({ accepted: 1 })
}

/** The pauses before the first retries, and those at the bound of 60 seconds. */
const growing = 6
const bounded = 4

/** What is wrong with the pauses of one batch; undefined if nothing is. */
async function judgeBackoff(play: Play, n: number): Promise<string | undefined> {
  play.flush(makeEvents(1, n))
  let exchange = await play.next()
  const pauses: number[] = []
  while (pauses.length < growing + bounded) {
    exchange.respond(503)
    const retry = await play.retryOf(exchange)
    pauses.push(retry.arrivedAt - (exchange.respondedAt ?? 0))
    exchange = retry
  }
  await exchange.accept()
  const last = pauses.slice(growing)
  const seen = `pauses of ${pauses.map(Math.round).join(', ')} ms, where the bound of 60 seconds is 600 ms`
  // random pauses up to 600 ms have a mean below 90 ms once in 200 batches, and are within 12 ms more rarely
  const mean = last.reduce((sum, ms) => sum + ms, 0) / bounded
  return mean < 90 || Math.max(...last) - Math.min(...last) < 12 ? seen : undefined
}
