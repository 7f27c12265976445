import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { faults } from '../faults.ts'
import { BrokenRule, type Play } from '../play.ts'
import { type Exchange, key, openScriptedServer } from '../scripted-server.ts'
import { makeEvents, type Rule } from './rule.ts'

const page = '<html><body>Sign in to this network</body></html>'

/** Statuses that the documentation does not name. */
export const otherStatuses: readonly number[] = [402, 406, 409, 410, 415, 418, 422, 451, 501, 505, 599]

/** Which responses are retried, and which drop a batch. */
export const retryRules: readonly Rule[] = [
  {
    id: 'server-errors',
    rule: '408, 5xx, time-out, connection error: retry the same batch, not before `Retry-After`',
    expected: 'a retry after each of 500, 502, 503, 504 and 408',
    play: (play) =>
      retryEach(
        play,
        [500, 502, 503, 504, 408].map((status) => ({ status, body: page })),
      ),
  },
  {
    id: 'configuration',
    rule: '404, 405, 431: fix the configuration; the batch is retried',
    expected: 'a retry after each of 404, 405 and 431',
    play: (play) =>
      retryEach(
        play,
        [404, 405, 431].map((status) => ({ status, body: page })),
      ),
  },
  {
    id: 'other-statuses',
    rule: 'any other status: retry the same batch, not before `Retry-After`',
    expected: `a retry after each of ${otherStatuses.join(', ')}`,
    play: (play) =>
      retryEach(
        play,
        otherStatuses.map((status) => ({ status, body: page })),
      ),
  },
  {
    id: 'drop',
    rule: '400, 413: drop the batch and log it',
    expected: 'the next batch after a 400 and a 413, and the events dropped as `bad_request` and `too_large`',
    async play(play) {
      for (const [n, status] of [400, 413].entries()) {
        play.flush(makeEvents(1, n))
        const exchange = await play.next()
        if (exchange.events[0]?.n !== n) throw new BrokenRule('the batch was sent again after a 400')
        exchange.respond(status, { 'Content-Type': 'application/problem+json' }, `{"status":${status}}`)
      }
      play.flush(makeEvents(1, 2))
      const exchange = await play.next()
      if (exchange.events[0]?.n !== 2) throw new BrokenRule('the batch was sent again after a 413')
      await exchange.accept()
      await play.finish({ accepted: 1, dropped: { bad_request: 1, too_large: 1 } })
    },
  },
  {
    id: 'redirect',
    rule: 'redirect: do not follow it with the key; retry the same batch',
    expected: 'a retry after each of 301, 302, 303, 307 and 308 to another port, which never gets the key',
    async play(play) {
      const other = await openScriptedServer((exchange) => {
        const hasKey = Object.values(exchange.headers).some((value) => String(value).includes(key))
        if (hasKey) play.breakRule('the other server got the key')
        exchange.respond(202, { 'Content-Type': 'application/json' }, '{"accepted":1,"duplicates":0,"rejected":[]}')
      })
      const headers = { Location: `${other.url}/v1/events/batch` }
      try {
        await retryEach(
          play,
          [301, 302, 303, 307, 308].map((status) => ({ status, headers })),
        )
      } finally {
        await other.close()
      }
    },
  },
  {
    id: 'foreign-202',
    rule: 'A 202 counts only with its three members, which add up to the events of the batch. Otherwise retry.',
    expected: 'a retry after a success that is not the result of the batch, such as the page of a captive portal',
    play: (play) =>
      retryEach(play, [
        { status: 200, body: page },
        { status: 202, body: page },
        ...[
          '',
          '{',
          'null',
          '[]',
          '{}',
          '{"duplicates":1,"rejected":[]}',
          '{"accepted":1,"rejected":[]}',
          '{"accepted":1,"duplicates":0}',
          '{"accepted":0,"duplicates":0,"rejected":[]}',
          '{"accepted":1,"duplicates":1,"rejected":[]}',
          '{"accepted":"1","duplicates":0,"rejected":[]}',
          '{"accepted":1,"duplicates":0,"rejected":null}',
        ].map((body) => ({ status: 202, headers: { 'Content-Type': 'application/json' }, body })),
      ]),
  },
  {
    id: 'cut',
    rule: '408, 5xx, time-out, connection error: retry the same batch, not before `Retry-After`',
    expected: 'a retry after a connection that ends before, in or after the head of a response, or does not speak HTTP',
    async play(play) {
      const head = 'HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\n'
      await retryAll(play, [
        (exchange) => exchange.inject(faults['reset before']),
        (exchange) => exchange.inject(faults['reset after']),
        (exchange) => exchange.inject(faults['cut after']),
        ...[head, `${head}Transfer-Encoding: chunked\r\n\r\n2\r\n{"`, 'SSH-2.0-OpenSSH_9.2\r\n'].map(
          (text) => async (exchange: Exchange) => void exchange.res.socket?.end(text),
        ),
      ])
      await play.finish({ duplicates: 1 })
    },
  },
  {
    id: 'silence',
    rule: '408, 5xx, time-out, connection error: retry the same batch, not before `Retry-After`',
    expected: 'a retry after the time-out, without a response or with its head only',
    settings: { timeoutMs: 500 },
    async play(play) {
      await retryAll(play, [async () => {}, async ({ res }) => void res.writeHead(202).flushHeaders()])
      await finishOnce(play)
    },
  },
  {
    id: 'slow',
    rule: 'Use a time-out of at least 30 seconds, also for the body, and limit the bytes that you read of it.',
    expected: 'a retry after the time-out, also if single bytes of a response keep coming',
    settings: { timeoutMs: 500 },
    async play(play) {
      await retryAll(play, [
        ({ res }) => drip(res.writeHead(202, { 'Content-Type': 'application/json' })),
        ({ res }) => drip(res.writeHead(500)),
        async ({ res }) => {
          const { socket } = res
          socket?.write('HTTP/1.1 202 Accepted\r\nX-Slow: ')
          while (socket?.writable) {
            socket.write('x')
            await sleep(20)
          }
        },
      ])
      await finishOnce(play)
    },
  },
  {
    id: 'endless',
    rule: 'Use a time-out of at least 30 seconds, also for the body, and limit the bytes that you read of it.',
    expected: 'a retry before 128 MiB of a response are read',
    settings: { timeoutMs: 20_000 },
    async play(play) {
      await retryAll(
        play,
        [202, 500].map(
          (status) =>
            ({ res }: Exchange) =>
              flood(play, res.writeHead(status)),
        ),
      )
      await finishOnce(play)
    },
  },
]

interface Response {
  status: number
  headers?: Readonly<Record<string, string>>
  body?: string
}

/** Expects one event again after each response, and accepts it. */
async function retryEach(play: Play, responses: readonly Response[]): Promise<void> {
  await retryAll(
    play,
    responses.map(
      ({ status, headers, body }) =>
        async (exchange: Exchange) =>
          exchange.respond(status, headers, body),
    ),
  )
  await play.finish({ accepted: 1 })
}

/** Expects one event again after each attempt, and accepts it. */
async function retryAll(play: Play, attempts: readonly ((exchange: Exchange) => Promise<void>)[]): Promise<void> {
  play.flush(makeEvents(1))
  const first = await play.next()
  let exchange = first
  for (const attempt of attempts) {
    // a response that never ends is not waited for
    attempt(exchange).catch((error) => play.breakRule(String(error)))
    exchange = await play.retryOf(first)
  }
  await exchange.accept()
}

/** Accepts the event, also if the last response came too late for the time-out. */
async function finishOnce(play: Play): Promise<void> {
  play.serve((exchange) => exchange.accept())
  const { accepted, duplicates } = await play.end()
  if (accepted + duplicates !== 1) throw new BrokenRule(`${accepted} accepted events and ${duplicates} duplicates`)
}

async function drip(res: ServerResponse): Promise<void> {
  while (!res.destroyed && res.socket?.writable) {
    res.write(' ')
    await sleep(20)
  }
}

const floodBytesMax = 128 * 1024 * 1024

async function flood(play: Play, res: ServerResponse): Promise<void> {
  const chunk = Buffer.alloc(1024 * 1024, ' ')
  for (let sent = 0; res.socket?.writable; sent += chunk.length) {
    if (sent > floodBytesMax) return play.breakRule('128 MiB of a response were read')
    await new Promise<void>((resolve) => res.write(chunk, () => resolve()))
  }
}
