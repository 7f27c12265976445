import { randomBytes } from 'node:crypto'
import t from 'tap'
import { openEnvironment } from '../../src/environment/environment.ts'
import { projectKey, readSequence, sequenceKey } from '../../src/environment/row-keys.ts'
import { createLogReader } from '../../src/ids/log-reader.ts'
import {
  decodeRecord,
  encodePayload,
  encodeRecord,
  parseEventId,
  readChecksum,
  readFingerprints,
  readHeader,
  readUnverified,
  sealRecord,
  splitEvents,
} from '../../src/log/record.ts'

const payload = Buffer.from('{ "events": [ {"eventId":"a"} , {"eventId":"b\\u0063", "n": 12345678901234567890} ] }')
const record = { project: 7, receivedAt: 1_795_203_225_083.0, count: 2, payload }
const fingerprints = Uint32Array.of(1, 2, 0xffffffff, 4)

function sealed(): Buffer {
  const bytes = encodeRecord(1, fingerprints, payload)
  sealRecord(bytes, record.project, record.receivedAt)
  return bytes
}

t.test('a record is read as it was written', async (t) => {
  const bytes = sealed()
  t.same(decodeRecord(bytes, 1), record)
  t.same(readUnverified(bytes), record)
  t.strictSame(readFingerprints(bytes, 1), fingerprints)
  t.match(readHeader(bytes, 1), { receivedAt: record.receivedAt, count: record.count })
  t.equal(bytes.length, 24 + 16 + payload.length)
})

t.test('a record that is not sealed has all but its project, and fails verification', async (t) => {
  const bytes = encodeRecord(record.receivedAt, fingerprints, payload)
  t.strictSame({ ...readUnverified(bytes), project: 7 }, record)
  t.throws(() => decodeRecord(bytes, 5), { code: 'store-damaged' })
})

t.test('a record has memory of its own, which can be transferred to another thread', async (t) => {
  const bytes = encodeRecord(1, Uint32Array.of(1, 2), Buffer.from('{"events":[{}]}'))
  t.equal(bytes.byteOffset, 0)
  t.equal(bytes.buffer.byteLength, bytes.length)
})

t.test('the header of a record is read without the rest', async (t) => {
  // as lmdb returns it: in memory that is reused, and that extends past the record
  const shared = new Uint8Array(Buffer.concat([Buffer.from('before'), sealed(), Buffer.from('after')]))
  t.strictSame(readHeader(shared.subarray(6), 5), { receivedAt: record.receivedAt, count: 2 })
  for (const bytes of [undefined, sealed().subarray(0, 23), Buffer.alloc(100)]) {
    t.throws(() => readHeader(bytes, 5), { code: 'store-damaged', message: 'Record 5' })
  }
})

t.test('records differ in their checksums', async (t) => {
  const other = encodeRecord(record.receivedAt, fingerprints, payload)
  sealRecord(other, 8, record.receivedAt)
  t.not(readChecksum(sealed()), readChecksum(other))
  t.equal(readChecksum(sealed()), readChecksum(sealed()))
  t.equal(readChecksum(undefined), 0)
  t.equal(readChecksum(sealed().subarray(0, 20)), 0)
})

t.test('one flipped bit anywhere is detected', async (t) => {
  const bytes = sealed()
  for (let at = 0; at < bytes.length; at++) {
    if (at >= 20 && at < 24) continue // no meaning yet
    const damaged = Buffer.from(bytes)
    damaged[at] = (damaged[at] as number) ^ (1 << (at & 7))
    t.throws(() => decodeRecord(damaged, 5), { code: 'store-damaged', message: 'Record 5' }, `byte ${at}`)
  }
})

t.test('a record that is missing, empty or truncated is damaged', async (t) => {
  const bytes = sealed()
  t.throws(() => decodeRecord(undefined, 5), { code: 'store-damaged' })
  t.throws(() => decodeRecord(Buffer.alloc(0), 5), { code: 'store-damaged' })
  t.throws(() => readHeader(undefined, 5), { code: 'store-damaged' })
  t.throws(() => readHeader(bytes.subarray(0, 23), 5), { code: 'store-damaged' })
  t.throws(() => decodeRecord(randomBytes(20), 5), { code: 'store-damaged' })
  t.throws(() => decodeRecord(bytes.subarray(0, -1), 5), { code: 'store-damaged' })
})

t.test('a payload of selected events has their exact bytes', async (t) => {
  const events = splitEvents(payload)
  t.same(splitEvents(encodePayload(events)).map(String), [
    '{"eventId":"a"}',
    '{"eventId":"b\\u0063", "n": 12345678901234567890}',
  ])
  const [second] = splitEvents(encodePayload(events.slice(1)))
  t.equal(parseEventId(second as Buffer), 'bc')
})

t.test('the log reader reads the fingerprints and the checksum of a record, and the end of the log', async (t) => {
  const environment = openEnvironment(t.testdir())
  const log = environment.table('log')
  const reader = createLogReader(environment, log)
  t.equal(reader.lastSequence(), 0)
  const payload = Buffer.from('{"events":[{},{}]}')
  const record = encodeRecord(0, Uint32Array.of(1, 2, 3, 0xffffffff), payload)
  sealRecord(record, 1, 0)
  environment.root.transactionSync(() => {
    log.put(sequenceKey(1), record)
    log.put(sequenceKey(300), record.subarray(0, 30))
  })
  reader.refresh()
  t.equal(reader.lastSequence(), 300)
  t.strictSame([...reader.fingerprints(1)], [1, 2, 3, 0xffffffff])
  t.equal(reader.checksum(1), record.readUInt32LE(16))
  t.equal(reader.checksum(2), 0, 'nothing')
  t.throws(() => reader.fingerprints(2), { code: 'store-damaged' })
  t.throws(() => reader.fingerprints(300), { code: 'store-damaged' }, 'cut')
  await environment.root.close()
})

const sequences = [0, 1, 255, 256, 2 ** 32 - 1, 2 ** 32, 2 ** 40, Number.MAX_SAFE_INTEGER]

t.test('the order of keys is the order of their numbers', async (t) => {
  const keys = sequences.map(sequenceKey)
  t.strictSame([...keys].reverse().sort(Buffer.compare), keys)
  const projects = [0, 1, 255, 256, 2 ** 32 - 1].map((project) => projectKey(project))
  t.strictSame([...projects].reverse().sort(Buffer.compare), projects)
})

t.test('a sequence number is read from its key, also after a project', async (t) => {
  for (const sequence of sequences) {
    t.equal(readSequence(sequenceKey(sequence)), sequence)
    t.equal(readSequence(projectKey(7, sequenceKey(sequence))), sequence)
  }
})
