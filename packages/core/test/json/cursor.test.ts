import t from 'tap'
import { decodeListCursor, encodeListCursor, eventCursors } from '../../src/json/cursor.ts'

const identity = { id: Buffer.from('01234567'), epoch: Buffer.from('89abcdef') }
const record = 0xfedcba98
const asIs = (names: readonly unknown[]) => names

t.test('a cursor decodes to its position', async (t) => {
  const { encode, decode, check } = eventCursors(identity, 'p')
  for (const position of [1, 255, 256, 2 ** 32, 2 ** 48 - 1, 2 ** 48, 2 ** 53 - 1]) {
    t.match(encode(position, record), /^[\w-]{32}$/)
    t.equal(decode(encode(position, record)), position)
    t.equal(check(encode(position, record), position, record), undefined)
  }
  t.equal(decode(encode(0, 0)), 0, 'position 0 has no event')
  t.equal(check(encode(0, 0), 0, 0), undefined)
})

t.test('the error says of what else the cursor is', async (t) => {
  const other = Buffer.from('--------')
  const { decode, check } = eventCursors(identity, 'p')
  const { encode } = eventCursors(identity, 'p')
  const cases: [string, number | undefined, RegExp][] = [
    [eventCursors({ ...identity, id: other }, 'p').encode(5, record), record, /of another store/],
    [eventCursors({ ...identity, epoch: other }, 'p').encode(5, record), record, /before a backup .* was restored/],
    [eventCursors(identity, 'q').encode(5, record), record, /of another project/],
    [encode(5, record), undefined, /is not in the store/],
    [encode(5, 0), undefined, /is not in the store/],
    [encode(5, record), record + 1, /is not in the store/],
    [encode(2 ** 53, record), record, /is not in the store/],
    [encodeListCursor('maps', 'p', ['12345678901']), record, /not an event cursor of this store/],
    ['5-0', record, /not an event cursor of this store/],
  ]
  for (const [cursor, stored, message] of cases) {
    t.throws(() => check(cursor, decode(cursor), stored), { code: 'invalid-cursor', message }, String(message))
  }
})

t.test('a list cursor decodes to its names', async (t) => {
  for (const names of [['b'], ['1', 'b'], ['\0é"', '😀,]'], ['x'.repeat(128)]]) {
    const cursor = encodeListCursor('maps', 'p', names)
    t.match(cursor, /^[\w-]+$/)
    t.strictSame(decodeListCursor('maps', 'p', cursor, asIs), names)
  }
})

t.test('a list cursor of another list or project, or with invalid names, is an invalid cursor', async (t) => {
  const cursor = encodeListCursor('maps', 'p', ['1', 'b'])
  const flip = (i: number) => `${cursor.slice(0, i)}${cursor[i] === 'A' ? 'B' : 'A'}${cursor.slice(i + 1)}`
  const changed = Array.from(cursor, (_, i) => flip(i))
  const others = [encodeListCursor('builds', 'p', ['b']), encodeListCursor('maps', 'q', ['1', 'b'])]
  for (const each of ['', 'x', '0-0', `${cursor}=`, cursor.slice(1), ...changed, ...others]) {
    t.throws(() => decodeListCursor('maps', 'p', each, asIs), { code: 'invalid-cursor' }, each)
  }
  const refuse = () => {
    throw new Error('no name')
  }
  t.throws(() => decodeListCursor('maps', 'p', cursor, refuse), { code: 'invalid-cursor' })
})
