import fc from 'fast-check'
import t from 'tap'
import { compileEventFilter } from '../../src/read/event-filter.ts'

const matches = (type: string, text: string) => compileEventFilter({ type })?.(Buffer.from(text))

t.test('a filter decodes escapes, ignores nested members and takes the last of a name', async (t) => {
  t.equal(compileEventFilter({}), undefined)
  const text = '{"projectId":"p","eventId":"e","type":"kill","buildId":"b1"}'
  for (const type of ['Kill', 'kil', 'kill ', 'b1', 'e']) t.equal(matches(type, text), false, type)
  for (const [type, text, isWanted] of [
    ['kill', '{"ty\\u0070e":"\\u006bill"}', true],
    ['a/"é', '{"type":"a\\/\\"\\u00e9"}', true],
    ['kill', '{"a":"kill","b":{"type":"kill"},"c":"\\"type\\":\\"kill\\""}', false],
    ['kill', '{"type":"kill","type":"other"}', false],
    ['kill', '{"type":"other","type":"kill"}', true],
    ['kill', '{"__proto__":{"type":"kill"}}', false],
    ['5', '{"type":5}', false],
  ] as const) {
    t.equal(matches(type, text), isWanted, text)
  }
  const larger = new Uint8Array(Buffer.from('"kill"{"type":"x"}"kill"'))
  t.equal(compileEventFilter({ type: 'kill' })?.(larger.subarray(6, -6)), false, 'a part of a larger array')
})

t.test('a filter agrees with the parsed event', async (t) => {
  const text = fc.oneof(fc.constantFrom('a', 'b"', '\\', 'é', '\ud800', ''), fc.string())
  fc.assert(
    fc.property(text, text, fc.boolean(), (wanted, actual, isEscaped) => {
      const json = JSON.stringify({ type: actual })
      const written = isEscaped ? json.replace('type', '\\u0074ype') : json
      t.equal(matches(wanted, written), wanted === JSON.parse(json).type)
    }),
  )
})

t.test('a filter of digits agrees with the parsed event, however its integer is written', async (t) => {
  const forms = (n: number) => [
    `${n}`,
    `${n}.0`,
    `${n}e0`,
    `${n}E+0`,
    `${n / 8}e0`,
    `${n / 1000}e3`,
    `"${n}"`,
    `"${n}e0"`,
  ]
  fc.assert(
    fc.property(
      fc.integer({ min: -5_000, max: 5_000 }),
      fc.nat(7),
      fc.constantFrom('', ' ', '\n\t'),
      (n, form, space) => {
        const text = `{"playerId":${space}${forms(n)[form]}}`
        const isWanted = compileEventFilter({ playerId: String(n) })?.(Buffer.from(text))
        t.equal(isWanted, String(JSON.parse(text).playerId) === String(n), text)
      },
    ),
  )
})
