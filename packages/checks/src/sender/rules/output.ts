import { faults } from '../faults.ts'
import { BrokenRule, type Play } from '../play.ts'
import type { Exchange } from '../scripted-server.ts'
import { makeEvents, type Rule } from './rule.ts'

const rule = 'Refuse a key with a line break when the sender is made, and write no key to a log or a message.'

/** Without a part that may stand in a path or a message. */
const key = 'ik_Zx81QpLm47RtVb90WsNc'
/** So many characters of a key are a leak. */
const leakChars = 6

/** What happens to the key. */
export const keyRules: readonly Rule[] = [
  {
    id: 'key-line-break',
    rule,
    expected: 'another exit code than 0 if INGEST_KEY ends in a line break, without a request',
    settings: { key: `${key}\n`, closeMs: 500 },
    async play(play) {
      for (const end of ['\n', '\r\n']) {
        if (end !== '\n') await play.restart(0, { key: `${key}${end}` })
        play.serve(() => play.breakRule(`a request arrived with a key that ends in ${JSON.stringify(end)}`))
        play.send(makeEvents(1))
        const { code } = await play.exit()
        if (code === 0) throw new BrokenRule(`a key that ends in ${JSON.stringify(end)} was not refused`)
        expectNoKey(play)
      }
    },
  },
  {
    id: 'key-secret',
    rule,
    expected:
      'no part of the key on standard output or standard error, also if a response has it or INGEST_URL is wrong',
    settings: { key },
    async play(play) {
      play.flush(makeEvents(1))
      for (const fault of [faults[404], faults[500], faults.page, faults.redirect, faults['reset before']]) {
        await (await play.next()).inject(fault)
      }
      for (const echo of echoes) echo(await play.next())
      play.flush(makeEvents(1, 1))
      await (await play.next()).accept()
      await play.finish({ accepted: 1, dropped: { bad_request: 1 } })
      expectNoKey(play)
      await play.restart(0, { closeMs: 500 })
      play.send(makeEvents(1))
      play.serve((exchange) => exchange.respond(401, json, problem))
      await play.exit()
      expectNoKey(play)
      for (const url of ['http://127.0.0.1:1', 'ingest.example', 'http://', '']) {
        await play.restart(0, { url })
        play.send(makeEvents(1))
        await play.exit()
        expectNoKey(play)
      }
    },
  },
]

// wherever a text is cut, one of the two is cut within a key
const texts = ['', 'x'.repeat(12)].map((start) => `${start}${`${key}-`.repeat(200)}`)
const json = { 'Content-Type': 'application/problem+json' }
const problem = JSON.stringify({ detail: texts[0] })

/** Responses with the key, the last of which drops the batch. */
const echoes: readonly ((exchange: Exchange) => void)[] = [
  (exchange) => exchange.respond(401, json, problem),
  ...texts.flatMap((text) => [
    (exchange: Exchange) => exchange.respond(503, json, JSON.stringify({ detail: text })),
    (exchange: Exchange) => exchange.respond(500, {}, text),
    (exchange: Exchange) => exchange.respond(307, { Location: `http://127.0.0.1:1/${text}` }),
  ]),
  (exchange) => exchange.respond(202, {}, texts[0]),
  ({ res }) => void res.writeHead(503, key).end(),
  ...[
    `${key} is no key\r\n`,
    `HTTP/1.1 202 Accepted\r\n${key}\r\n\r\n`,
    `HTTP/1.1 202 Accepted\r\nContent-Length: ${key}\r\n\r\n`,
    `HTTP/1.1 202 Accepted\r\nTransfer-Encoding: ${key}\r\n\r\n`,
  ].map((text) => (exchange: Exchange) => void exchange.res.socket?.end(text)),
  (exchange) => exchange.respond(400, json, problem),
]

function expectNoKey(play: Play): void {
  for (let i = 0; i + leakChars <= key.length; i++) {
    if (play.hasPrinted(key.slice(i, i + leakChars)))
      throw new BrokenRule('the program printed the key, or a part of it')
  }
}
