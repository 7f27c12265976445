import fc from 'fast-check'
import t from 'tap'
import { eventBytesMax } from '../../src/batch/fill-batch.ts'
import { type PrepareOptions, prepareEvents, rejectEvent } from '../../src/import/prepare-events.ts'
import { createValueSlicer, type SlicedValue, valueBytesMax } from '../../src/import/slice-values.ts'

/** The texts of events, and of rejected ones with the first issue. */
async function prepare(text: string | Buffer, options?: PrepareOptions) {
  const prepared = { events: [] as [at: number, text: string][], rejected: [] as unknown[], madeIds: 0 }
  let fault: unknown
  try {
    for await (const { events, rejected } of prepareEvents([Buffer.from(text)] as never, options)) {
      prepared.events.push(...events.map(({ at, bytes }): [number, string] => [at, bytes.toString()]))
      prepared.madeIds += events.filter(({ hasMadeId }) => hasMadeId).length
      for (const { at, eventId, issues, event } of rejected) {
        prepared.rejected.push([at, eventId, `${issues[0]?.code} ${issues[0]?.path}`, event.toString()])
      }
    }
  } catch (error) {
    fault = error
  }
  return { ...prepared, fault }
}

const odd = '{ "eventId" : "e" , "projectId":"p","big":12345678901234567890123,"f":1.0,"k":1,"k":2}'
const inner = '{ "eventId":"e","projectId":"p", "f":1.0,"s":",\\"event\\":","event":{"n":1} }'
const ofBytes = (bytes: number) => `{"eventId":"e","x":"${'x'.repeat(bytes - 22)}"}`
const withoutId = 'required /eventId'

const kept: [what: string, text: string, events: string, options?: PrepareOptions][] = [
  ['a line', `${odd}\n`, odd],
  ['an element, with its line breaks', `[\n${odd.replace(' , ', '\r\n,')}\n]`, odd.replace(' , ', '\r\n,')],
  ['an event without a projectId', '{"eventId":"e"}', '{"eventId":"e"}'],
  ['one that gets a projectId', '{"eventId":"e"}', '{"projectId":"p","eventId":"e"}', { projectId: 'p' }],
  [
    'one with another projectId',
    '{"eventId":"e","projectId":"q"}',
    '{"eventId":"e","projectId":"q"}',
    { projectId: 'p' },
  ],
  ['an invalid id, which the server rejects', '{"eventId":null}', '{"eventId":null}'],
  ['the largest event', ofBytes(eventBytesMax), ofBytes(eventBytesMax)],
  ['a line of an export', `{"cursor":"1-0","receivedAt":1795203225083,"event":${inner}}`, inner],
  ['a rejected line', `{"line":3,"eventId":"e","issues":[{"path":"/,\\"event\\":"}],"event":${inner}}`, inner],
  ['a rejected element', `{"index":0,"eventId":null,"issues":[],"event":${inner}}`, inner],
  ['a wrapped line with spaces', `{ "line" : 3 , "eventId" : "e" , "issues" : [] , "event" : ${inner} }`, inner],
  ['a wrapped line with escapes', `{"line":3,"eventId":"e","issues":[],"\\u0065vent":${inner}}`, inner],
  ['the last of a member', `{"line":3,"eventId":"e","issues":[{"event":1}],"event":0,"event":${inner}}`, inner],
  ...[
    '{"cursor":"c","eventId":"e","event":{"eventId":"inner"}}',
    '{"eventId":"e","event":{"eventId":"inner"}}',
    '{"line":3,"eventId":"e","issues":[],"event":"jump"}',
    '{"line":3,"eventId":"e","issues":[],"event":{"eventId":"inner"},"more":1}',
    '{"event":{"eventId":"inner"},"line":3,"eventId":"e","issues":[]}',
  ].map((text): [string, string, string] => ['what resembles a wrapped line', text, text]),
]

t.test('events are kept byte for byte, apart from what is missing or wraps them', async (t) => {
  for (const [what, text, event, options] of kept) {
    const expected = { events: [[text.startsWith('[') ? 0 : 1, event]], rejected: [], madeIds: 0, fault: undefined }
    t.strictSame(await prepare(text, options), expected, what)
  }
})

const batch = '{"events":[{"projectId":"p","eventId":"e"}]}'
const over = ofBytes(eventBytesMax + 1)
const rejected: [text: string | Buffer, eventId: string | null, issue: string, event: string, PrepareOptions?][] = [
  ['{"n":1}', null, withoutId, '{"n":1}'],
  ['{"cursor":"1-0","receivedAt":1,"event":{"n":1}}', null, withoutId, '{"n":1}'],
  [batch, null, 'not_allowed /events', batch],
  [batch, null, 'not_allowed /events', batch, { makeIds: true }],
  [over, 'e', 'too_long ', over],
  [ofBytes(eventBytesMax), 'e', 'too_long ', ofBytes(eventBytesMax), { projectId: 'p' }],
  [ofBytes(600_000), null, 'too_long ', 'null'],
  [Buffer.from('{"eventId":"\xff"}', 'latin1'), null, 'not_object ', '"{\\"eventId\\":\\"\ufffd\\"}"'],
]

t.test('events that cannot be sent are rejected', async (t) => {
  for (const [text, eventId, issue, event, options] of rejected) {
    const expected = { events: [], rejected: [[1, eventId, issue, event]], madeIds: 0, fault: undefined }
    t.strictSame(await prepare(text, options), expected, event.slice(0, 100))
  }
})

t.test('makeIds generates missing ids, in their order', async (t) => {
  const { events, rejected, madeIds } = await prepare('{"n":1}\n{"n":2}\n{"eventId":null}', { makeIds: true })
  t.strictSame([rejected, madeIds], [[], 2])
  const [first, second] = events.map(([, text]) => JSON.parse(text).eventId)
  t.match(first, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-/)
  t.ok(second > first)
  t.match(
    await prepare('{"type":"t","events":[]}', { makeIds: true }),
    { rejected: { length: 0 }, madeIds: 1 },
    'no batch',
  )
})

t.test('a line that is not an object is rejected on its own', async (t) => {
  const good = '{"eventId":"e"}'
  t.strictSame(await prepare(`${good}\n{"a":\nnull\n[1]\n5\n{"a":1}}\n${good}`), {
    events: [
      [1, good],
      [7, good],
    ],
    rejected: [
      [2, null, 'not_object ', '"{\\"a\\":"'],
      [3, null, 'not_object ', 'null'],
      [4, null, 'not_object ', '[1]'],
      [5, null, 'not_object ', '5'],
      [6, null, 'not_object ', '"{\\"a\\":1}}"'],
    ],
    madeIds: 0,
    fault: undefined,
  })
})

t.test('an array with invalid JSON throws after the elements before it', async (t) => {
  const event = '{"eventId":"e"}'
  const { events, fault } = await prepare(`[${event},{"eventId":},{"eventId":"f"}]`)
  t.strictSame(events, [[0, event]])
  t.match(fault, { code: 'malformed-body', message: /^Element 1 of the array is not JSON/ })
  t.match(await prepare(`[${event},{"eventId":"f"}`), { events: [[0, event]], fault: { message: /no end/ } })
  t.match(await prepare('[5]'), { rejected: [[0, null, 'not_object ', '5']], fault: undefined })
})

t.test('rejectEvent returns the event in one line', async (t) => {
  const prepared = { at: 3, bytes: Buffer.from('{\n"eventId":"e"}'), hasMadeId: false }
  const issues = [{ code: 'too_deep', path: '', message: 'Deep.' } as const]
  const event = Buffer.from('{ "eventId":"e"}')
  t.strictSame(rejectEvent(prepared, { eventId: 'e', issues }), { at: 3, eventId: 'e', issues, event })
})

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

t.test('files with byte order marks may be concatenated', async (t) => {
  const text = '\ufeff{"a":1}\n\ufeff {"b":2}\r\n\ufeff\n{"c":"\ufeff"}\n\ufeff'
  for (const sizes of [[1], [5], [14], [1000]]) {
    const values = slice(text, sizes)
    t.strictSame(textsOf(values), ['{"a":1}', ' {"b":2}', '{"c":"\ufeff"}'])
    t.strictSame(positionsOf(values), [1, 2, 4])
  }
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
  const blank = fc.string({ unit: fc.constantFrom(' ', '\t', '\r'), maxLength: 3 })
  const line = fc.tuple(blank, fc.option(value, { nil: undefined }), blank)
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
