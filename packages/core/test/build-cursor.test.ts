import t from 'tap'
import { decodeBuildCursor, encodeBuildCursor } from '../src/build-cursor.ts'
import { encodeMapCursor } from '../src/map-cursor.ts'

t.test('a cursor is the build that it was made from', async (t) => {
  for (const buildId of ['b', '😀,]"', 'x'.repeat(128)]) {
    t.match(encodeBuildCursor(buildId), /^[\w-]+$/)
    t.equal(decodeBuildCursor(encodeBuildCursor(buildId)), buildId)
  }
})

t.test('what is no cursor is refused', async (t) => {
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const strange = ['', 'x', '0-0', encode(null), encode('b'), encode([]), encode(['']), encode([1])]
  const long = encode(['x'.repeat(129)])
  const ofMap = encodeMapCursor({ placeId: '1', buildId: 'b' })
  for (const cursor of [...strange, long, ofMap, encode(['a\0b']), `${encode(['b'])}=`]) {
    t.throws(() => decodeBuildCursor(cursor), { code: 'invalid-cursor' }, cursor)
  }
})
