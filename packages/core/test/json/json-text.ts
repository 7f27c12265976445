import fc from 'fast-check'

// JSON as text, with every way to write it that the grammar of RFC 8259 has

export const space = fc.string({ unit: fc.constantFrom(' ', '\t', '\n', '\r'), maxLength: 2 })

export const escaped = fc.oneof(
  fc.constantFrom('\\"', '\\\\', '\\/', '\\b', '\\f', '\\n', '\\r', '\\t'),
  fc.nat(0xffff).map((code) => `\\u${code.toString(16).padStart(4, '0')}`),
)

const character = fc.oneof(
  fc
    .string({ unit: 'grapheme', minLength: 1, maxLength: 1 })
    .map((character) => JSON.stringify(character).slice(1, -1)),
  fc.constantFrom('[', ']', '{', '}', ',', ':', ' ', '\u007f'),
  escaped,
)

export const string = fc.array(character, { maxLength: 5 }).map((characters) => `"${characters.join('')}"`)

export const number = fc
  .tuple(
    fc.constantFrom('', '-'),
    fc.bigInt({ min: 0n, max: 10n ** 30n }),
    fc.constantFrom('', '.0', '.25'),
    fc.constantFrom('', 'e5', 'E-7', 'e+400'),
  )
  .map((parts) => parts.join(''))

export const spaced = (text: fc.Arbitrary<string>) => fc.tuple(space, text, space).map((parts) => parts.join(''))

export const member = (key: fc.Arbitrary<string>, value: fc.Arbitrary<string>) =>
  fc.tuple(spaced(key), spaced(value)).map(([name, each]) => `${name}:${each}`)

export const { value } = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom('null', 'true', 'false', '[]', '{}'),
    number,
    string,
    fc.array(spaced(tie('value')), { maxLength: 3 }).map((values) => `[${values}]`),
    fc.array(member(string, tie('value')), { maxLength: 3 }).map((members) => `{${members}}`),
  ),
}))
