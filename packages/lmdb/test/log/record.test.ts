import { randomBytes } from 'node:crypto'
import type { BatchEvents } from '@ingest/core'
import { column, scanBatch, wordsPerEvent } from '@ingest/core/internal'
import t from 'tap'
import { openEnvironment } from '../../src/environment/environment.ts'
import { projectKey, readSequence, sequenceKey } from '../../src/environment/row-keys.ts'
import { createLogReader } from '../../src/ids/log-reader.ts'
import {
  decodeRecord,
  encodeRecord,
  eventAt,
  parseEventId,
  payloadOf,
  readChecksum,
  readFingerprints,
  readHeader,
  readUnverified,
  sealRecord,
} from '../../src/log/record.ts'

const texts = ['{"projectId":"p","eventId":"a"}', '{"projectId":"p", "eventId":"bc", "n": 12345678901234567890}']
const body = Buffer.from(` { "events": [ ${texts.join(' , ')} ] }`)
const hashKey = Buffer.alloc(16, 'key')
const batch = scanBatch(body, 'p', hashKey) as BatchEvents
const header = { project: 7, receivedAt: 1_795_203_225_083.0, count: 2 }
const fingerprints = Uint32Array.of(1, 2, 0xffffffff, 4)
for (const i of [0, 1]) batch.rows.set(fingerprints.subarray(i * 2, i * 2 + 2), i * wordsPerEvent + column.hashHigh)

function encode(receivedAt = 1): Buffer {
  return encodeRecord(body, batch.rows, receivedAt)
}

function sealed(project = header.project): Buffer {
  const bytes = encode()
  sealRecord(bytes, project, header.receivedAt)
  return bytes
}

t.test('a record is read as it was written', async (t) => {
  const bytes = sealed()
  const { project, receivedAt, events } = decodeRecord(bytes, 1)
  t.strictSame([project, receivedAt, events.map(String)], [7, header.receivedAt, texts])
  t.same(readUnverified(bytes), header)
  t.strictSame(readFingerprints(bytes, 1), fingerprints)
  t.strictSame(readHeader(bytes, 1), header)
  t.equal(String(payloadOf(bytes)), texts.join(','))
  t.strictSame(
    [0, 1, 2].map((index) => String(eventAt(bytes, index))),
    [...texts, ''],
  )
})

t.test('a record that is not sealed has all but its project, and fails verification', async (t) => {
  const bytes = encode(header.receivedAt)
  t.strictSame({ ...readUnverified(bytes), project: 7 }, header)
  t.throws(() => decodeRecord(bytes, 5), { code: 'store-damaged' })
})

t.test('a record has memory of its own, which can be transferred to another thread', async (t) => {
  const bytes = encode()
  t.equal(bytes.byteOffset, 0)
  t.equal(bytes.buffer.byteLength, bytes.length)
})

t.test('fingerprints are read at any alignment', async (t) => {
  for (let shift = 0; shift < 8; shift++) {
    const shifted = Buffer.concat([Buffer.alloc(shift), sealed()]).subarray(shift)
    t.strictSame(readFingerprints(shifted, 1), fingerprints)
  }
})

t.test('the header of a record is read without the rest', async (t) => {
  // as lmdb returns it: in memory that is reused, and that extends past the record
  const shared = new Uint8Array(Buffer.concat([Buffer.from('before'), sealed(), Buffer.from('after')]))
  t.strictSame(readHeader(shared.subarray(6), 5), header)
  for (const bytes of [undefined, sealed().subarray(0, 23), Buffer.alloc(100)]) {
    t.throws(() => readHeader(bytes, 5), { code: 'store-damaged', message: 'Record 5' })
  }
})

t.test('records differ in their checksums', async (t) => {
  t.not(readChecksum(sealed()), readChecksum(sealed(8)))
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

t.test('a record has the exact bytes of any events of a batch', async (t) => {
  const ids = ['a', 'b', 'c', 'd', 'e']
  const eventOf = (eventId: string) => `{"projectId":"p","eventId":"${eventId}"}`
  // some events with one byte between them, and some with more
  const body = Buffer.from(`{"events":[${ids.slice(0, 2).map(eventOf)} , ${ids.slice(2).map(eventOf)}]}`)
  const { rows } = scanBatch(body, 'p', hashKey) as BatchEvents
  // larger than the record
  const memory = Buffer.alloc(1000, 'x')
  for (let selection = 1; selection < 32; selection++) {
    const isSelected = (i: number) => (selection & (1 << i)) !== 0
    const wanted = ids.filter((_, i) => isSelected(i))
    const some = encodeRecord(
      body,
      rows.filter((_, word) => isSelected(Math.floor(word / wordsPerEvent))),
      5,
      memory,
    )
    t.strictSame(
      wanted.map((_, i) => parseEventId(eventAt(some, i))),
      wanted,
    )
    t.equal(String(payloadOf(some)), wanted.map(eventOf).join(','))
    const alone = Buffer.from(`{"events":[${wanted.map(eventOf)}]}`)
    t.strictSame(some, encodeRecord(alone, (scanBatch(alone, 'p', hashKey) as BatchEvents).rows, 5))
  }
  t.throws(() => encodeRecord(body.subarray(0, -3), rows, 5), { code: 'internal-error' })
})

t.test('an event that is not JSON is damaged, whatever its checksum says', async (t) => {
  t.throws(() => parseEventId(Buffer.from('{"eventId":')), { code: 'store-damaged' })
})

t.test('the log reader reads the fingerprints and the checksum of a record, and the end of the log', async (t) => {
  const environment = openEnvironment(t.testdir())
  const log = environment.table('log')
  const reader = createLogReader(environment, log)
  t.equal(reader.lastSequence(), 0)
  const record = sealed()
  environment.root.transactionSync(() => {
    log.put(sequenceKey(1), record)
    log.put(sequenceKey(300), record.subarray(0, 30))
  })
  reader.refresh()
  t.equal(reader.lastSequence(), 300)
  t.strictSame([...reader.fingerprints(1)], [...fingerprints])
  t.equal(reader.checksum(1), record.readUInt32LE(16))
  t.equal(reader.checksum(2), 0, 'nothing')
  t.throws(() => reader.fingerprints(2), { code: 'store-damaged' })
  t.throws(() => reader.fingerprints(300), { code: 'store-damaged' }, 'cut')
  environment.close()
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
