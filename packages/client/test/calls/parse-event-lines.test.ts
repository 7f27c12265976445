import { eventLine } from '@ingest/core'
import fc from 'fast-check'
import t from 'tap'
import { parseEventLines } from '../../src/calls/parse-event-lines.ts'

async function* pieces(...parts: (string | Uint8Array)[]) {
  for (const part of parts) yield Buffer.from(part)
}

async function parse(...parts: (string | Uint8Array)[]) {
  const events = []
  for await (const line of parseEventLines(pieces(...parts))) {
    const { cursor, ...rest } = line
    events.push('receivedAt' in rest ? { cursor, receivedAt: rest.receivedAt, text: String(line.bytes) } : line)
  }
  return events
}

const texts = [
  '{"projectId":"a","eventId":"e"}',
  '{ "n" : 12345678901234567890.10, "n":1e400 , "s":"\\u0041\\ud83d" }',
  '{"s":"é😀,\\"event\\":{}","event":{"cursor":"x"}}',
  '{}',
]
const events = texts.map((text, i) => ({ cursor: `c",\\"event":${i}`, receivedAt: 1795203225083 + i, text }))
const lines = Buffer.concat(events.map(({ text, ...rest }) => eventLine({ ...rest, bytes: Buffer.from(text) })))

t.test('events come back byte for byte, however the lines are cut', async (t) => {
  t.strictSame(await parse(lines), events)
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(lines.length)), async (cuts) => {
      const ends = [...cuts, lines.length].sort((a, b) => a - b)
      t.strictSame(await parse(...ends.map((end, i) => lines.subarray(ends[i - 1] ?? 0, end))), events)
    }),
    { numRuns: 100 },
  )
})

t.test('a line without an event says how far was read', async (t) => {
  t.strictSame(await parse(lines, '{"cursor":"a"}\n'), [...events, { cursor: 'a' }])
  t.strictSame(await parse('{"cursor":"a,\\"b"}\n'), [{ cursor: 'a,"b' }])
})

t.test('nothing is no events', async (t) => {
  t.strictSame(await parse(), [])
  t.strictSame(await parse(''), [])
})

const broken = [
  '<html></html>\n',
  '\n',
  '{}\n',
  'null\n',
  '{"cursor":7}\n',
  '{"cursor":"a"',
  '{"cursor":"a","receivedAt":1}\n',
  '{"cursor":7,"receivedAt":1,"event":{}}\n',
  '{"cursor":"a","receivedAt":"1","event":{}}\n',
  '{"cursor":"a","receivedAt":1.5,"event":{}}\n',
  '{"cursor:"a","receivedAt":1,"event":{}}\n',
  '{"cursor":"a","receivedAt":1,"event":{}}',
]
for (const line of broken) {
  t.test(`${JSON.stringify(line)} is not a line of an event`, async (t) => {
    await t.rejects(parse(line), { code: 'unexpected-answer' })
  })
}

t.test('a line without an end is not read for ever', async (t) => {
  async function* endless() {
    for (;;) yield Buffer.alloc(65_536, 'x')
  }
  await t.rejects(parseEventLines(endless()).next(), { code: 'unexpected-answer' })
})
