import fc from 'fast-check'
import t from 'tap'
import { createValueSlicer, type SlicedValue, valueBytesMax } from '../../src/import/slice-values.ts'

/** All values of a text in chunks of these sizes; the last size is repeated. */
function slice(text: string | Buffer, sizes: readonly number[] = []): SlicedValue[] {
  const slicer = createValueSlicer()
  const bytes = Buffer.from(text)
  const values: SlicedValue[] = []
  for (let start = 0, i = 0; start < bytes.length; i++) {
    const end = start + (sizes[Math.min(i, sizes.length - 1)] ?? bytes.length)
    values.push(...slicer.push(bytes.subarray(start, end)))
    start = end
  }
  values.push(...slicer.end())
  return values
}

const textOf = ({ source, start, end }: SlicedValue) => source.toString('utf8', start, end)
const textsOf = (values: readonly SlicedValue[]) => values.map(textOf)
const positionsOf = (values: readonly SlicedValue[]) => values.map(({ at }) => at)

t.test('lines are values; empty lines are skipped and counted', async (t) => {
  const values = slice('\n \r\n{"a":1}\r\n\n\t{"b":\t2} \n5\nno json')
  t.strictSame(textsOf(values), ['{"a":1}', '{"b":\t2}', '5', 'no json'])
  t.strictSame(positionsOf(values), [3, 5, 6, 7])
})

t.test('the elements of an array are values', async (t) => {
  const elements = ['{"a":"],}\\"["}', '[[1],{"b":[]}]', '"\\\\"', '-1.5', 'null', '{\n}']
  const values = slice(` \n[ ${elements.join(' ,\n')}\n]\n`)
  t.strictSame(textsOf(values), elements)
  t.strictSame(positionsOf(values), [0, 1, 2, 3, 4, 5])
  for (const empty of ['[]', ' [ \n] ', '', ' \n ', '\ufeff']) t.strictSame(slice(empty), [])
})

t.test('the first byte that is not whitespace decides about the form', async (t) => {
  for (const [text, form] of [
    ['\ufeff{', 'lines'],
    ['\ufeff [', 'array'],
  ] as const) {
    const slicer = createValueSlicer()
    for (const byte of Buffer.from(text)) {
      t.equal(slicer.form(), undefined)
      t.strictSame([...slicer.push(Buffer.of(byte))], [])
    }
    t.equal(slicer.form(), form)
  }
})

t.test('input of another form throws', async (t) => {
  for (const text of ['a,b\n1,2', '"a"', '5', 'PK', '\ufeff\ufeff{}']) {
    t.throws(() => slice(text), { code: 'malformed-body', message: /neither lines .* nor an array/ }, text)
  }
  t.throws(() => slice(Buffer.from([0x1f, 0x8b, 8])), { code: 'malformed-body', message: /compressed/ })
})

t.test('an invalid array yields the elements before the fault, then throws', async (t) => {
  const cases = [
    ['[1,2', ['1'], /has no end/],
    ['[', [], /has no end/],
    ['[1,"]"', ['1'], /has no end/],
    ['[1,,2]', ['1'], /Element 1 of the array is empty/],
    ['[,]', [], /Element 0 of the array is empty/],
    ['[1,]', ['1'], /Element 1 of the array is empty/],
    ['[1]\n{"a":1}', ['1'], /after the array/],
    ['[1]]', ['1'], /after the array/],
  ] as const
  for (const [text, expected, message] of cases) {
    for (const size of [1, text.length]) {
      const values: SlicedValue[] = []
      const slicer = createValueSlicer()
      const run = () => {
        const bytes = Buffer.from(text)
        for (let at = 0; at < bytes.length; at += size) {
          for (const value of slicer.push(bytes.subarray(at, at + size))) values.push(value)
        }
        for (const value of slicer.end()) values.push(value)
      }
      t.throws(run, { code: 'malformed-body', message }, text)
      t.strictSame(textsOf(values), expected)
    }
  }
})

t.test('only the start of a value that is too long is kept', async (t) => {
  const exact = `{"a":"${'x'.repeat(valueBytesMax - 8)}"}`
  const long = `{"a":"${'x'.repeat(3 * valueBytesMax)}"}`
  for (const text of [`${exact}\n${long}\n{}`, `[${exact},${long},{}]`]) {
    for (const sizes of [[], [100_000]]) {
      const values = slice(text, sizes)
      t.strictSame(
        values.map(({ start, end, isTooLong }) => [end - start, isTooLong]),
        [
          [valueBytesMax, false],
          [valueBytesMax, true],
          [2, false],
        ],
      )
    }
  }
})

t.test('a line with too much leading whitespace is too long', async (t) => {
  const values = slice(`{}\n${' '.repeat(valueBytesMax)}{"a":1}\n{}`, [100_000])
  t.match(values, [{ at: 1 }, { at: 2, isTooLong: true }, { at: 3 }])
})

const space = fc.string({ unit: fc.constantFrom(' ', '\t', '\n', '\r'), maxLength: 3 })
const strings = fc.string({
  unit: fc.oneof(
    fc.constantFrom('"', '\\', '[', ']', '{', '}', ',', ':', '\n'),
    fc.string({ unit: 'grapheme', maxLength: 1 }),
  ),
})
const { value } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    strings,
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.constantFrom(null, true, false),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(strings, tie('value'), { maxKeys: 4 }),
  ),
}))
const sizes = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 20 })

const isSame = (values: readonly unknown[], expected: readonly unknown[]) =>
  JSON.stringify(values) === JSON.stringify(expected)

t.test('the elements of any array are sliced byte for byte, at any chunk boundaries', async (t) => {
  const element = fc.tuple(space, value, fc.constantFrom(0, 1, '\t'), space)
  fc.assert(
    fc.property(space, fc.array(element, { maxLength: 6 }), space, sizes, (before, elements, after, sizes) => {
      const texts = elements.map(([, value, indent]) => JSON.stringify(value, null, indent))
      const spaced = elements.map(([left, , , right], i) => `${left}${texts[i]}${right}`)
      return isSame(textsOf(slice(`${before}[${spaced.join(',')}]${after}`, sizes)), texts)
    }),
    { numRuns: 1_000 },
  )
  t.pass('1,000 arrays')
})

t.test('lines are sliced with their numbers, at any chunk boundaries', async (t) => {
  const inner = fc.string({ unit: fc.constantFrom(' ', '\t', '\r'), maxLength: 3 })
  const line = fc.tuple(inner, fc.option(value, { nil: undefined }), inner)
  fc.assert(
    fc.property(fc.array(line, { maxLength: 6 }), fc.constantFrom('', '\n'), sizes, (rest, end, sizes) => {
      // the first line must be an object, which selects the form
      const texts = ['{}', ...rest.map(([, value]) => (value === undefined ? '' : JSON.stringify(value)))]
      const spaced = texts.map((text, i) => `${rest[i - 1]?.[0] ?? ''}${text}${rest[i - 1]?.[2] ?? ''}`)
      const values = slice(`${spaced.join('\n')}${end}`, sizes)
      return isSame(
        values.map((value) => [value.at, textOf(value)]),
        texts.map((text, i) => [i + 1, text]).filter(([, text]) => text !== ''),
      )
    }),
    { numRuns: 1_000 },
  )
  t.pass('1,000 texts')
})
