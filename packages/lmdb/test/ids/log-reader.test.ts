import t from 'tap'
import { openEnvironment } from '../../src/environment/environment.ts'
import { sequenceKey } from '../../src/environment/row-keys.ts'
import { createLogReader } from '../../src/ids/log-reader.ts'
import { encodeRecord, sealRecord } from '../../src/log/record.ts'

t.test('of a record the fingerprints and the checksum are read, and where the log ends', async (t) => {
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
