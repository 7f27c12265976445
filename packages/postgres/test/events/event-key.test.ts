import fc from 'fast-check'
import t from 'tap'
import { eventKey } from '../../src/events/event-key.ts'

const uuid = '0190f3a2-7b1c-7d3e-8f40-00ff5c1e7a2b'

t.test('a UUID in lower case has a key of 17 bytes, every other id one of its own text', async (t) => {
  t.strictSame(eventKey(uuid).toString('hex'), `01${uuid.replaceAll('-', '')}`)
  const alike = [
    uuid.toUpperCase(),
    uuid.replace('f', 'F'),
    `{${uuid}}`,
    `urn:uuid:${uuid}`,
    uuid.replaceAll('-', ''),
    ` ${uuid}`,
    `${uuid}\n`,
    uuid.replace('-', '_'),
    uuid.replace('a', 'g'),
    uuid.slice(1),
    `${uuid.slice(0, -1)}ｂ`,
    // the bytes of a key as an id
    `\x01${uuid.replaceAll('-', '')}`,
    eventKey(uuid).toString('latin1'),
    '',
    '\x00',
    'é',
    'e\u0301',
  ]
  for (const id of alike) t.strictSame(eventKey(id), Buffer.from(`\x02${id}`), JSON.stringify(id))
  const keys = [uuid, ...alike].map((id) => eventKey(id).toString('hex'))
  t.equal(new Set(keys).size, keys.length)
})

t.test('two ids have the same key only if they are the same', async () => {
  const hex = fc.constantFrom(...'0aAfF')
  const id = fc.oneof(
    fc.string({ unit: 'grapheme', maxLength: 4 }),
    fc.uuid(),
    fc.array(hex, { minLength: 32, maxLength: 32 }).map((digits) => {
      const text = digits.join('')
      return [text.slice(0, 8), text.slice(8, 12), text.slice(12, 16), text.slice(16, 20), text.slice(20)].join('-')
    }),
  )
  fc.assert(fc.property(id, id, (a, b) => eventKey(a).equals(eventKey(b)) === (a === b)))
})
