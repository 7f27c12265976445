import { faults } from '../faults.ts'
import { BrokenRule, type Play } from '../play.ts'
import type { Exchange } from '../scripted-server.ts'
import { makeEvents, type Rule } from './rule.ts'

const rule = 'Refuse a key with a line break when the sender is made, and write no key to a log or a message.'

/** Has no part that may occur in a path or a message. */
const key = 'ik_Zx81QpLm47RtVb90WsNc'
/** The number of consecutive characters of a key that are a leak. */
const leakChars = 6

/** Rules for what a sender prints of its key and of responses. */
export const outputRules: readonly Rule[] = [
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
  {
    id: 'control-characters',
    rule: 'Write no control character of a response to a log or a message: a line feed would forge a line of a log.',
    expected: 'no line of a response, and none of its control characters, on standard output or standard error',
    async play(play) {
      play.flush(makeEvents(1))
      for (const respond of forgeries) respond(await play.next())
      await (await play.next()).accept()
      play.flush(makeEvents(1, 1))
      ;(await play.next()).respond(202, json, rejection)
      play.flush(makeEvents(1, 2))
      ;(await play.next()).respond(400, {}, forged)
      await play.finish({ accepted: 1, rejected: 1, dropped: { bad_request: 1 } })
      for (const character of ['\x1b', '\x9b', '\x07', '\x00', '\u2028']) {
        if (play.hasPrinted(character)) throw new BrokenRule(`the program printed the character ${nameOf(character)}`)
      }
      for (const end of ['\n', '\r']) {
        if (play.hasPrinted(`${end}${forgedLine}`)) throw new BrokenRule('the program printed a line of a response')
      }
    },
  },
]

const forgedLine = 'ERROR the disk is on fire'
/** Starts new lines, and changes the title and colors of a terminal. */
const forged = `no\r\n${forgedLine}\r${forgedLine}\n${forgedLine}\x1b]0;title\x07\x1b[31m\x9b31m\u2028\x00`
/** The same without characters that a head cannot hold. */
const forgedHead = forged.replaceAll(/[\r\n\0]/g, ' ')
const issues = [{ code: forged, path: forged, message: forged }]
// indented, so that there are line feeds between its members
const rejection = JSON.stringify(
  { accepted: 0, duplicates: 0, rejected: [{ index: 0, eventId: null, issues }] },
  null,
  '\n',
)

/** Responses that are retried. */
const forgeries: readonly ((exchange: Exchange) => void)[] = [
  (exchange) => exchange.respond(500, {}, forged),
  (exchange) => exchange.respond(202, {}, forged),
  (exchange) =>
    exchange.respond(503, { 'Content-Type': 'application/problem+json' }, JSON.stringify({ detail: forged })),
  ...[
    `HTTP/1.1 307 ${forgedHead}\r\nLocation: http://127.0.0.1:1/${forgedHead}\r\nContent-Length: 0\r\n\r\n`,
    `HTTP/1.1 500 ${forgedHead}\r\n${forgedHead}: ${forgedHead}\r\n\r\n`,
    `${forgedHead}\n${forgedLine}\r\n`,
    `HTTP/1.1 202 Accepted\r\nTransfer-Encoding: ${forgedHead}\r\n\r\n`,
  ].map((text) => (exchange: Exchange) => void exchange.res.socket?.end(text)),
]

/** `U+001B` */
function nameOf(character: string): string {
  return `U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}`
}

// wherever a sender truncates a text, it cuts within a key in one of the two
const texts = ['', 'x'.repeat(12)].map((start) => `${start}${`${key}-`.repeat(200)}`)
const json = { 'Content-Type': 'application/problem+json' }
const problem = JSON.stringify({ detail: texts[0] })
/** The key with JSON escapes: a mask finds it only after parsing. */
const escaped = [...key].map((character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')

/** Responses with the key, the last of which drops the batch. */
const echoes: readonly ((exchange: Exchange) => void)[] = [
  (exchange) => exchange.respond(401, json, problem),
  ...texts.flatMap((text) => [
    (exchange: Exchange) => exchange.respond(503, json, JSON.stringify({ detail: text })),
    (exchange: Exchange) => exchange.respond(500, {}, text),
    (exchange: Exchange) => exchange.respond(307, { Location: `http://127.0.0.1:1/${text}` }),
  ]),
  (exchange) => exchange.respond(503, json, `{"detail":"${escaped}"}`),
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
