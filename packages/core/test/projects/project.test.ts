import t from 'tap'
import { hashKey, isActive, isKeyOf, type KeyRecord, keyIdOf, makeKey, scopes } from '../../src/projects/project.ts'

const { key, keyId } = makeKey()
const record: KeyRecord = { keyId, hash: hashKey(key), scopes: ['events:write'], createdAt: 0 }

t.test('a key is ik_, an id, 160 random bits and a checksum', async (t) => {
  t.match(key, /^ik_[0-9a-hjkmnp-tv-z]{8}_[0-9a-hjkmnp-tv-z]{39}$/)
  t.equal(key.slice(3, 11), keyId)
  t.equal(keyIdOf(key), keyId)
})

t.test('keys are unique', async (t) => {
  const keys = Array.from({ length: 1_000 }, () => makeKey())
  t.equal(new Set(keys.map((each) => each.key)).size, 1_000)
  t.ok(keys.every((each) => keyIdOf(each.key) === each.keyId))
})

t.test('a key encodes 160 bits of its random bytes', async (t) => {
  const sizes: number[] = []
  const of = (fill: (at: number) => number) =>
    makeKey((size) => {
      sizes.push(size)
      return Uint8Array.from({ length: size }, (_, at) => fill(at))
    }).key
  const zeros = of(() => 0)
  t.ok(zeros.startsWith(`ik_${'0'.repeat(8)}_${'0'.repeat(32)}`))
  t.equal(
    of(() => 0b11100000),
    zeros,
  )
  for (let at = 0; at < 40; at++)
    for (const bit of [1, 16])
      t.not(
        of((each) => (each === at ? bit : 0)),
        zeros,
      )
  t.ok(sizes.every((size) => size === 40))
})

t.test('a key with any one character changed is malformed', async (t) => {
  for (let at = 0; at < key.length; at++) {
    const other = key[at] === 'x' ? 'y' : 'x'
    t.equal(keyIdOf(key.slice(0, at) + other + key.slice(at + 1)), undefined, `at ${at}`)
  }
})

t.test('a malformed key is recognized without a look-up', async (t) => {
  const junk = [
    '',
    'ik_',
    keyId,
    key.slice(1),
    key.slice(0, -1),
    `${key}0`,
    ` ${key}`,
    `${key}\n`,
    key.toUpperCase(),
    key.repeat(2),
  ]
  for (const text of [...junk, '\u0000', 'é', 'x'.repeat(100_000)]) t.equal(keyIdOf(text), undefined, text.slice(0, 60))
})

t.test('a key is stored as its hash', async (t) => {
  t.match(hashKey(key), /^[0-9a-f]{64}$/)
  t.notMatch(JSON.stringify(record), key.slice(12))
})

t.test('a key is valid for the scopes of its record, and no other key is', async (t) => {
  t.equal(isKeyOf(record, key, 'events:write', 0), true)
  t.equal(isKeyOf(record, makeKey().key, 'events:write', 0), false)
  t.equal(isKeyOf(record, '', 'events:write', 0), false)
  for (const scope of scopes) t.equal(isKeyOf(record, key, scope, 0), scope === 'events:write', scope)
})

t.test('a key is invalid from its expiry or revocation on', async (t) => {
  const expiring = { ...record, expiresAt: 1_000 }
  t.equal(isActive(record, Number.MAX_SAFE_INTEGER), true)
  t.equal(isActive(expiring, 999), true)
  t.equal(isActive(expiring, 1_000), false)
  t.equal(isKeyOf(expiring, key, 'events:write', 999), true)
  t.equal(isKeyOf(expiring, key, 'events:write', 1_000), false)
  t.equal(isActive({ ...record, revokedAt: 5 }, 0), false, 'at once, whatever the clock says')
  t.equal(isKeyOf({ ...record, revokedAt: 5 }, key, 'events:write', 10), false)
})

t.test('there are three scopes', async (t) => {
  t.strictSame(scopes, ['events:write', 'maps:write', 'read'])
})
