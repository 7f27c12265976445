import { randomBytes } from 'node:crypto'
import t from 'tap'
import { decodeRecord, encodePayload, encodeRecord, eventIdOf, eventsOf, viewRecord } from '../../src/lmdb/record.ts'
import { sliceEvents } from '../../src/slice-events.ts'

const payload = Buffer.from('{ "events": [ {"eventId":"a"} , {"eventId":"b\\u0063", "n": 12345678901234567890} ] }')
const record = { project: 7, receivedAt: 1_795_203_225_083.0, count: 2, payload }
const fingerprints = Uint32Array.of(1, 2, 0xffffffff, 4)

t.test('a record is read as it was written', async (t) => {
  const bytes = encodeRecord(record, fingerprints)
  t.same(decodeRecord(bytes, 1), record)
  t.same(viewRecord(bytes), record)
  t.equal(bytes.length, 24 + 16 + payload.length)
})

t.test('one flipped bit anywhere is found', async (t) => {
  const bytes = encodeRecord(record, fingerprints)
  for (let at = 0; at < bytes.length; at++) {
    if (at >= 20 && at < 24) continue // no meaning yet
    const damaged = Buffer.from(bytes)
    damaged[at] = (damaged[at] as number) ^ (1 << (at & 7))
    t.throws(() => decodeRecord(damaged, 5), { code: 'store-damaged', message: 'Record 5' }, `byte ${at}`)
  }
})

t.test('a record that is missing, empty or cut is damaged', async (t) => {
  const bytes = encodeRecord(record, fingerprints)
  t.throws(() => decodeRecord(undefined, 5), { code: 'store-damaged' })
  t.throws(() => decodeRecord(Buffer.alloc(0), 5), { code: 'store-damaged' })
  t.throws(() => decodeRecord(randomBytes(20), 5), { code: 'store-damaged' })
  t.throws(() => decodeRecord(bytes.subarray(0, -1), 5), { code: 'store-damaged' })
})

t.test('a payload made of some of the events holds their exact bytes', async (t) => {
  const slices = sliceEvents(payload)
  t.same(eventsOf(encodePayload(payload, slices)).map(String), [
    '{"eventId":"a"}',
    '{"eventId":"b\\u0063", "n": 12345678901234567890}',
  ])
  const [second] = eventsOf(encodePayload(payload, slices.slice(1)))
  t.equal(eventIdOf(second as Buffer), 'bc')
})
