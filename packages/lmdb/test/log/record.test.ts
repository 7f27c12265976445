import { randomBytes } from 'node:crypto'
import type { BatchEvents } from '@ingest/core'
import { column, scanBatch, wordsPerEvent } from '@ingest/core/internal'
import t from 'tap'
import { projectKey, readSequence, sequenceKey } from '../../src/environment/row-keys.ts'
import {
  decodeRecord,
  encodeRecord,
  eventAt,
  fingerprintsIn,
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
const header = { project: 7, ordinal: 3, receivedAt: 1_795_203_225_083.0, count: 2 }
const fingerprints = Uint32Array.of(1, 2, 0xffffffff, 4)
for (const i of [0, 1]) batch.rows.set(fingerprints.subarray(i * 2, i * 2 + 2), i * wordsPerEvent + column.hashHigh)

function encode(receivedAt = 1): Buffer {
  return encodeRecord(body, batch.rows, receivedAt)
}

const identity = { sequence: 5, project: header.project, ordinal: header.ordinal }

function sealed(own: Partial<typeof identity> = {}): Buffer {
  const bytes = encode()
  sealRecord(bytes, { ...identity, ...own }, header.receivedAt)
  return bytes
}

t.test('a record is read as it was written', async (t) => {
  const bytes = sealed()
  const { project, ordinal, receivedAt, events } = decodeRecord(bytes, 5)
  t.strictSame([project, ordinal, receivedAt, events.map(String)], [7, 3, header.receivedAt, texts])
  t.match(readUnverified(bytes), header)
  t.strictSame(readFingerprints(bytes, 5), fingerprints)
  t.strictSame(readHeader(bytes, 5), { ...header, checksum: readChecksum(bytes) })
  t.equal(String(payloadOf(bytes)), texts.join(','))
  t.strictSame(
    [0, 1, 2].map((index) => String(eventAt(bytes, index))),
    [...texts, ''],
  )
})

t.test('a record in the position of another one is damaged', async (t) => {
  for (const sequence of [1, 4, 6, 5 + 2 ** 31]) {
    const expected = { code: 'store-damaged', message: `Record ${sequence}` }
    t.throws(() => decodeRecord(sealed(), sequence), expected)
    t.throws(() => readHeader(sealed(), sequence), expected)
    t.throws(() => readFingerprints(sealed(), sequence), expected)
  }
})

t.test('one flipped bit anywhere is detected, in the head even without the payload', async (t) => {
  const bytes = sealed()
  const headEnd = bytes.length - texts.join().length
  for (let at = 0; at < bytes.length; at++) {
    const damaged = Buffer.from(bytes)
    damaged[at] = (damaged[at] as number) ^ (1 << (at & 7))
    const error = { code: 'store-damaged', message: 'Record 5' }
    t.throws(() => decodeRecord(damaged, 5), error, `byte ${at}`)
    const isChecksumOfAll = at >= 28 && at < 32
    if (at < headEnd && !isChecksumOfAll) t.throws(() => readHeader(damaged, 5), error, `byte ${at}`)
  }
})

t.test('a record that is not sealed has all but its identity, and fails verification', async (t) => {
  const bytes = encode(header.receivedAt)
  t.strictSame([bytes.byteOffset, bytes.buffer.byteLength], [0, bytes.length], 'it can be transferred to a thread')
  t.match({ ...readUnverified(bytes), project: 7, ordinal: 3 }, header)
  t.strictSame(fingerprintsIn(bytes), fingerprints)
  t.throws(() => decodeRecord(bytes, 5), { code: 'store-damaged' })
})

t.test('fingerprints are read at any alignment', async (t) => {
  for (let shift = 0; shift < 8; shift++) {
    const shifted = Buffer.concat([Buffer.alloc(shift), sealed()]).subarray(shift)
    t.strictSame(readFingerprints(shifted, 5), fingerprints)
  }
})

t.test('a header is read from memory that extends past the record', async (t) => {
  // like the memory that lmdb returns
  const shared = new Uint8Array(Buffer.concat([Buffer.from('before'), sealed(), Buffer.from('after')]))
  t.match(readHeader(shared.subarray(6, -5), 5), header)
})

t.test('a record that is missing, empty or truncated is damaged', async (t) => {
  const bytes = sealed()
  const noHead = [undefined, Buffer.alloc(0), randomBytes(20), bytes.subarray(0, 31), Buffer.alloc(100)]
  for (const damaged of noHead) t.throws(() => readHeader(damaged, 5), { code: 'store-damaged', message: 'Record 5' })
  for (const damaged of [...noHead, bytes.subarray(0, -1)]) {
    t.throws(() => decodeRecord(damaged, 5), { code: 'store-damaged' })
  }
  t.throws(() => parseEventId(Buffer.from('{"eventId":')), { code: 'store-damaged' }, 'whatever its checksum says')
})

t.test('records differ in their checksums', async (t) => {
  t.not(readChecksum(sealed()), readChecksum(sealed({ project: 8 })))
  t.equal(readChecksum(sealed()), readChecksum(sealed()))
  t.equal(readChecksum(undefined), 0)
  t.equal(readChecksum(sealed().subarray(0, 31)), 0)
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

t.test('keys sort by their numbers, which are read from them, even after a project', async (t) => {
  const sequences = [0, 1, 255, 256, 2 ** 32 - 1, 2 ** 32, 2 ** 40, Number.MAX_SAFE_INTEGER]
  const keys = sequences.map(sequenceKey)
  t.strictSame([...keys].reverse().sort(Buffer.compare), keys)
  t.strictSame(keys.map(readSequence), sequences)
  t.strictSame(
    keys.map((key) => readSequence(projectKey(7, key))),
    sequences,
  )
  const projects = [0, 1, 255, 256, 2 ** 32 - 1].map((project) => projectKey(project))
  t.strictSame([...projects].reverse().sort(Buffer.compare), projects)
})
