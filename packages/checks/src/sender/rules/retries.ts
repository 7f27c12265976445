import type { ServerResponse } from 'node:http'
import type { Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { faults } from '../faults.ts'
import { BrokenRule, type Play } from '../play.ts'
import { type Exchange, key, openScriptedServer } from '../scripted-server.ts'
import { makeEvents, type Rule } from './rule.ts'

const page = '<html><body>Sign in to this network</body></html>'

/** Statuses after which a batch is sent again, each with its rule. */
const retriedStatuses = [
  {
    id: 'server-errors',
    rule: '408, 5xx, time-out, connection error: retry the same batch, not before `Retry-After`',
    statuses: [500, 502, 503, 504, 408],
  },
  {
    id: 'configuration',
    rule: '404, 405, 431: fix the configuration; the batch is retried',
    statuses: [404, 405, 431],
  },
  {
    id: 'other-statuses',
    rule: 'any other status: retry the same batch, not before `Retry-After`',
    statuses: [402, 406, 409, 410, 415, 418, 422, 451, 501, 505, 599],
  },
]

/** After a 408 on a kept connection, a browser sends the request again at once. */
const pausing = { 'Retry-After': '200', Connection: 'close' }

/** Rules for which responses are retried, and which drop a batch. */
export const retryRules: readonly Rule[] = [
  ...retriedStatuses.map(({ id, rule, statuses }) => ({
    id,
    rule,
    expected: `a retry after each of ${statuses.join(', ')}, not before \`Retry-After\``,
    settings: { timeScale: 0.0005 },
    play: (play: Play) =>
      retryEach(
        play,
        statuses.map((status) => ({ status, headers: pausing, body: page, leastMs: 200_000 })),
      ),
  })),
  {
    id: 'drop',
    rule: '400, 413: drop the batch and log it',
    expected: 'the next batch after a 400 and a 413, and the events dropped as `bad_request` and `too_large`',
    async play(play) {
      for (const [i, status] of [400, 413].entries()) {
        play.flush(makeEvents(3, 3 * i))
        const exchange = await play.next()
        if (exchange.events[0]?.n !== 3 * i) throw new BrokenRule('the batch was sent again after a 400')
        exchange.respond(status, { 'Content-Type': 'application/problem+json' }, `{"status":${status}}`)
      }
      play.flush(makeEvents(1, 6))
      const exchange = await play.next()
      if (exchange.events[0]?.n !== 6) throw new BrokenRule('events were sent again after a 413')
      await exchange.accept()
      await play.finish({ accepted: 1, dropped: { bad_request: 3, too_large: 3 } })
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
    rule: 'A response that is cut, whatever its status, is a connection error.',
    expected: 'a retry after a connection that ends before the end of a response, or does not speak HTTP',
    async play(play) {
      const head = 'HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\n'
      const result = '{"accepted":1,"duplicates":0,"rejected":[]}'
      const texts = [
        head,
        `${head}Content-Length: ${result.length + 1}\r\n\r\n${result}`,
        `${head}Transfer-Encoding: chunked\r\n\r\n2\r\n{"`,
        ...[400, 413].map((status) => `HTTP/1.1 ${status} Cut\r\nContent-Length: 40\r\n\r\n{"detail":`),
        'HTTP/1.1 400 Cut\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{"',
        `${head}Transfer-Encoding: chunked\r\n\r\n${result.length.toString(16)}\r\n${result}\r\n`,
        'SSH-2.0-OpenSSH_9.2\r\n',
      ]
      await retryAll(play, [
        ['a reset before the batch was stored', (exchange) => exchange.inject(faults['reset before'])],
        ['a reset after the batch was stored', (exchange) => exchange.inject(faults['reset after'])],
        ['a 202 that was cut after the batch was stored', (exchange) => exchange.inject(faults['cut after'])],
        ...texts.map((text): Attempt => {
          return [
            `a connection that ended after ${JSON.stringify(text)}`,
            async ({ res }) => void res.socket?.end(text),
          ]
        }),
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
      await retryAll(play, [
        ['no response', async () => {}],
        ['the head of a 202 alone', async ({ res }) => void res.writeHead(202).flushHeaders()],
      ])
      await finishOnce(play)
    },
  },
  {
    id: 'slow',
    rule: 'Use a time-out of at least 30 seconds, also for the body, and limit the bytes that you read of it.',
    expected: 'a retry after the time-out, also if single bytes or interim responses keep coming',
    settings: { timeoutMs: 500 },
    async play(play) {
      await retryAll(play, [
        [
          'a 202 whose body comes in single bytes, without an end',
          ({ res }) => drip(res.writeHead(202, { 'Content-Type': 'application/json' })),
        ],
        ['a 500 whose body comes in single bytes, without an end', ({ res }) => drip(res.writeHead(500))],
        [
          'a 202 whose header comes in single bytes, without an end',
          async ({ res }) => {
            res.socket?.write('HTTP/1.1 202 Accepted\r\nX-Slow: ')
            await drip(res, 'x', res.socket)
          },
        ],
        ['103 responses without an end', ({ res }) => drip(res, 'HTTP/1.1 103 Early Hints\r\n\r\n', res.socket)],
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
        [202, 500].map((status) => [
          `a ${status} whose body has no end`,
          ({ res }: Exchange) => flood(play, res.writeHead(status)),
        ]),
      )
      await finishOnce(play)
    },
  },
]

interface Response {
  status: number
  headers?: Readonly<Record<string, string>>
  body?: string
  /** The shortest pause after it, in sender time. Default 0. */
  leastMs?: number
}

/** Expects the same event again after each response, and finally accepts it. */
async function retryEach(play: Play, responses: readonly Response[]): Promise<void> {
  play.flush(makeEvents(1))
  let exchange = await play.next()
  for (const { status, headers, body, leastMs } of responses) {
    exchange.respond(status, headers, body)
    const what = body ? `a ${status} with the body ${JSON.stringify(body)}` : `a ${status}`
    exchange = await naming(what, play.retryOf(exchange, leastMs))
  }
  await exchange.accept()
  await play.finish({ accepted: 1 })
}

/** A fault of a request, with its name. */
type Attempt = [name: string, run: (exchange: Exchange) => Promise<unknown>]

/** Expects the same event again after each attempt, and finally accepts it. */
async function retryAll(play: Play, attempts: readonly Attempt[]): Promise<void> {
  play.flush(makeEvents(1))
  let exchange = await play.next()
  for (const [name, run] of attempts) {
    // not awaited: a response may never end
    run(exchange).catch((error) => play.breakRule(String(error)))
    exchange = await naming(name, play.retryOf(exchange))
  }
  await exchange.accept()
}

/** Puts the name of the fault before the message of a broken rule. */
async function naming<T>(fault: string, retry: Promise<T>): Promise<T> {
  try {
    return await retry
  } catch (error) {
    throw error instanceof BrokenRule ? new BrokenRule(`after ${fault}: ${error.message}`) : error
  }
}

/** Accepts the event, which may be a duplicate if the last response came after the timeout. */
async function finishOnce(play: Play): Promise<void> {
  play.serve((exchange) => exchange.accept())
  const { accepted, duplicates } = await play.end()
  if (accepted + duplicates !== 1) throw new BrokenRule(`${accepted} accepted events and ${duplicates} duplicates`)
}

/** Writes a text repeatedly until the sender closes the connection. */
async function drip(res: ServerResponse, text = ' ', stream: Writable | null = res): Promise<void> {
  while (!res.destroyed && res.socket?.writable) {
    stream?.write(text)
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
