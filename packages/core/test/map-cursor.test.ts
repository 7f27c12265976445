import t from 'tap'
import { decodeMapCursor, encodeMapCursor } from '../src/map-cursor.ts'

t.test('a cursor is the map that it was made from', async (t) => {
  for (const id of [
    { placeId: '1', buildId: 'b' },
    { placeId: '\0é"', buildId: '😀,]' },
  ]) {
    t.match(encodeMapCursor(id), /^[\w-]+$/)
    t.strictSame(decodeMapCursor(encodeMapCursor(id)), id)
  }
})

t.test('what is no cursor is refused', async (t) => {
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const strange = [
    '',
    'x',
    '0-0',
    encode(null),
    encode(['1']),
    encode(['1', '']),
    encode([1, 'b']),
    encode(['1', 'b', 'c']),
  ]
  for (const cursor of [...strange, `${encode(['1', 'b'])}=`]) {
    t.throws(() => decodeMapCursor(cursor), { code: 'invalid-cursor' }, cursor)
  }
})
