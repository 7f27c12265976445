import fc from 'fast-check'
import t from 'tap'
import { parseByteRange } from '../../src/routes/get-map-content.ts'

t.test('a range is what slicing would give', async () => {
  const part = fc.option(fc.nat(30), { nil: undefined })
  fc.assert(
    fc.property(part, part, fc.nat(20), (first, last, size) => {
      const bytes = Array.from({ length: size }, (_, i) => i)
      const range = parseByteRange(`bytes=${first ?? ''}-${last ?? ''}`, size)
      if (first === undefined && last === undefined) return range === undefined
      if (first !== undefined && last !== undefined && last < first) return range === undefined
      const wanted =
        first === undefined ? bytes.slice(-(last as number) || size) : bytes.slice(first, (last ?? size) + 1)
      if (wanted.length === 0) return range === 'unsatisfiable'
      return typeof range === 'object' && String(bytes.slice(range.start, range.end)) === String(wanted)
    }),
    { numRuns: 1000 },
  )
})

t.test('what a server may ignore is ignored', async (t) => {
  for (const header of [
    undefined,
    '',
    'bytes',
    'bytes=',
    'bytes=-',
    'bytes=a-b',
    'bytes=1',
    'bytes=0-1,3-4',
    'lines=0-1',
    'bytes=1-0',
    'bytes=-1-2',
    'bytes =0-1',
    'bytes=0x1-2',
  ]) {
    t.equal(parseByteRange(header, 10), undefined, String(header))
  }
})

t.test('the unit has no case, and numbers may be large', async (t) => {
  t.strictSame(parseByteRange('Bytes=2-3', 10), { start: 2, end: 4 })
  t.strictSame(parseByteRange(' bytes= 2-3 ', 10), { start: 2, end: 4 })
  t.strictSame(parseByteRange('bytes=2-99999999999999999999', 10), { start: 2, end: 10 })
  t.strictSame(parseByteRange('bytes=-99999999999999999999', 10), { start: 0, end: 10 })
  t.equal(parseByteRange('bytes=99999999999999999999-', 10), 'unsatisfiable')
  t.equal(parseByteRange('bytes=0-', 0), 'unsatisfiable')
})
