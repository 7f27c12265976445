import { faults } from '../faults.ts'
import { BrokenRule, type Play } from '../play.ts'
import { key } from '../scripted-server.ts'
import { makeEvents, type Rule } from './rule.ts'

const rule = 'Refuse a key with a line break when the sender is made, and write no key to a log or a message.'

/** What happens to the key. */
export const keyRules: readonly Rule[] = [
  {
    id: 'key-line-break',
    rule,
    expected: 'another exit code than 0 if INGEST_KEY ends in a line break, without a request',
    settings: { key: `${key}\n`, closeMs: 500 },
    async play(play) {
      for (const text of ['\\n', '\\r\\n']) {
        play.send(makeEvents(1))
        const { code } = await play.exit()
        if (play.hasRequest()) throw new BrokenRule(`a request arrived with a key that ends in ${text}`)
        if (code === 0) throw new BrokenRule(`a key that ends in ${text} was not refused`)
        expectNoKey(play)
        await play.restart({ key: `${key}\r\n`, closeMs: 500 }, 0)
      }
    },
  },
  {
    id: 'key-secret',
    rule,
    expected: 'no key on standard output or standard error, whatever the server responds and if INGEST_URL is wrong',
    async play(play) {
      play.flush(makeEvents(1))
      for (const fault of [
        faults[401],
        faults[404],
        faults[500],
        faults.page,
        faults.redirect,
        faults['reset before'],
      ]) {
        await (await play.next()).inject(fault)
      }
      await (await play.next()).accept()
      await play.finish({ accepted: 1 })
      expectNoKey(play)
      for (const url of ['http://127.0.0.1:1', 'ingest.example', 'http://', '']) {
        await play.restart({ url, closeMs: 500 }, 0)
        play.send(makeEvents(1))
        await play.exit()
        expectNoKey(play)
      }
    },
  },
]

function expectNoKey(play: Play): void {
  if (play.hasPrinted(key)) throw new BrokenRule('the program printed the key')
}
