import t from 'tap'
import { digestIssue, digestOf, isDigest } from '../../src/maps/digest.ts'

// FIPS 180-4, example of one block
const abc = 'sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'

t.test('a digest is the SHA-256 of bytes, or of parts one after another', async (t) => {
  t.equal(digestOf(Buffer.from('abc')), abc)
  t.equal(digestOf(Buffer.from('a'), Buffer.from('bc')), abc)
  t.equal(digestOf(), 'sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
})

t.test('a digest is sha256: and 64 lower-case hex digits', async (t) => {
  t.ok(isDigest(abc))
  t.equal(digestIssue(abc, '/digest'), undefined)
  for (const value of ['', abc.slice(7), abc.toUpperCase(), `${abc}0`, abc.slice(0, -1), `${abc}\n`, 'sha512:00']) {
    t.notOk(isDigest(value))
    t.match(digestIssue(value, '/digest'), { code: 'invalid_format', path: '/digest' }, value)
  }
  t.match(digestIssue(undefined, '/digest'), { code: 'required' })
  for (const value of [null, 5, {}]) t.match(digestIssue(value, '/digest'), { code: 'invalid_type' })
})
