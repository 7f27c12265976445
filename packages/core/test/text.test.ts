import fc from 'fast-check'
import t from 'tap'
import { exceedsBytes, isNameText } from '../src/validation.ts'

t.test('a length is counted in bytes of UTF-8', async (t) => {
  t.equal(exceedsBytes('', 0), false)
  for (const [character, bytes] of [
    ['a', 1],
    ['é', 2],
    ['日', 3],
    ['😀', 4],
  ] as const) {
    t.equal(exceedsBytes(character.repeat(10), 10 * bytes), false, character)
    t.equal(exceedsBytes(character.repeat(10), 10 * bytes - 1), true, character)
  }
})

t.test('the shortcuts agree with the count', async () => {
  const texts = fc.string({ unit: fc.constantFrom('a', 'é', '日', '😀', '\ud800', '\udc00'), maxLength: 30 })
  fc.assert(
    fc.property(
      texts,
      fc.nat(90),
      (text, bytesMax) => exceedsBytes(text, bytesMax) === Buffer.byteLength(text) > bytesMax,
    ),
  )
})

t.test('a name holds no control characters', async (t) => {
  for (let unit = 0; unit < 0x100; unit++) {
    const isControl = unit <= 0x1f || unit === 0x7f
    t.equal(isNameText(`a${String.fromCharCode(unit)}b`), !isControl, `U+${unit.toString(16)}`)
  }
})

t.test('a name holds surrogates in pairs only', async (t) => {
  t.equal(isNameText('😀'), true)
  for (const text of ['\ud800', '\udc00', 'a\udfff', '\ud83d', '\ude00\ud83d', '😀\ud83d'])
    t.equal(isNameText(text), false)
})
