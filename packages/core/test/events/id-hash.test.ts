import fc from 'fast-check'
import t from 'tap'
import { hashId, sipHash } from '../../src/events/id-hash.ts'

const hex = ([high, low]: [number, number]) => [high, low].map((word) => word.toString(16).padStart(8, '0')).join('')

t.test('the hash of an id is its SipHash-1-3', async (t) => {
  // python3.11 -c "print(hex(hash('abc'.encode()) & (2**64 - 1)))" with PYTHONHASHSEED=0, a key of zeros, and with 42
  const texts = ['a', 'abc', 'abcdefgh', '0123456789abcdef', 'é'.repeat(5), 'x'.repeat(63)]
  const ofSeed0 = ['407448d2b89b1813', 'c03bc3a0042630f2', '3f7b849c0b8e35ea', '1d42b30f7e060c24', 'fcbe08246c25f830']
  const ofSeed42 = ['fe4a47335692551e', '35b382d0c5d675e9', 'b441be6d79f21056', 'fb45b65d4dce0272', 'f9b7aa6e69dccdb2']
  for (const hash of [hashId, sipHash]) {
    t.strictSame(
      texts.map((text) => hex(hash(new Uint8Array(16), text))),
      [...ofSeed0, '1c308a9f11b6a742'],
    )
    t.strictSame(
      texts.map((text) => hex(hash(pythonKey(42), text))),
      [...ofSeed42, 'fc2f59550af19247'],
    )
  }
})

/** The key that Python makes of a seed: `lcg_urandom` of its Python/bootstrap_hash.c. */
function pythonKey(seed: number): Uint8Array {
  let state = seed
  return Uint8Array.from({ length: 16 }, () => {
    state = (Math.imul(state, 214_013) + 2_531_011) | 0
    return (state >>> 16) & 0xff
  })
}

t.test('the hash is the same with WebAssembly and without', async (t) => {
  const key = Buffer.from('0123456789abcdef')
  for (let length = 0; length <= 300; length++) {
    const text = 'abcdefghijk'.repeat(30).slice(0, length)
    t.strictSame(hashId(key, text), sipHash(key, text), `${length} bytes`)
  }
  for (const text of ['\ud800', '\udc00a', '\0', '🎮'.repeat(100), 'é'.repeat(200_000)]) {
    t.strictSame(hashId(key, text), sipHash(key, text))
  }
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 16, maxLength: 16 }), fc.string({ unit: 'binary' }), (key, text) => {
      t.strictSame(hashId(key, text), sipHash(key, text))
    }),
  )
})
