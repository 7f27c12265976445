import t, { type Test } from 'tap'
import { openEnvironment } from '../../src/environment/environment.ts'
import { sequenceKey } from '../../src/environment/row-keys.ts'
import { openIdIndex } from '../../src/ids/id-index.ts'
import { createIndexer } from '../../src/ids/indexer.ts'
import { createLogReader } from '../../src/ids/log-reader.ts'
import { openIdTables } from '../../src/ids/run-list.ts'
import { createEventLog, openEventLogTables } from '../../src/log/event-log.ts'
import { createAppender } from '../../src/writer/append-batch.ts'
import { fingerprintsFor, openWriterBed, recordAt } from '../writer-bed.ts'

const entriesPerFlush = 10
const idsOf = (record: number) => Array.from({ length: entriesPerFlush }, (_, i) => `${record}-${i}`)

/** An appender on handles of its own. */
async function openAppender(t: Test, directory: string) {
  const { environment, data } = await openWriterBed(directory, entriesPerFlush)
  const tables = openEventLogTables(environment.table)
  const eventLog = createEventLog(tables)
  const log = createLogReader(environment, tables.log)
  const ids = await openIdIndex({
    ...data,
    directory: data.idsDirectory,
    log,
    logDirectory: data.directory,
    logFileIds: data.fileIds,
  })
  t.teardown(async () => {
    await ids.close()
    await environment.close()
  })
  return { data, log, appender: createAppender(tables, eventLog, ids, () => {}) }
}

/** What another process does to the same directory: it appends records, and flushes their ids. */
async function openOther(
  t: Test,
  { directory, idsDirectory, seed }: { directory: string; idsDirectory: string; seed: string },
) {
  const environment = await openEnvironment(directory)
  const idsEnvironment = await openEnvironment(idsDirectory)
  const log = environment.table('log')
  const indexer = createIndexer({
    tables: openIdTables(idsEnvironment),
    log: createLogReader(environment, log),
    seed,
    entriesPerFlush,
  })
  t.teardown(async () => {
    await environment.close()
    await idsEnvironment.close()
  })
  return {
    append: (sequence: number) =>
      environment.write(() => void log.put(sequenceKey(sequence), recordAt(sequence, idsOf(sequence)))),
    flush() {
      while (indexer.step() === 'worked');
    },
  }
}

t.test('an event that another process stores and flushes while events are located is located', async (t) => {
  const { data, log, appender } = await openAppender(t, t.testdir())
  const other = await openOther(t, data)
  other.append(1)
  log.refresh()
  // all in one turn, in which this handle keeps its snapshot of the log
  t.equal(log.lastSequence(), 1)
  other.append(2)
  other.flush()
  t.equal(log.lastSequence(), 1)
  const eventIds = ['1-9', '2-0', '2-9', 'none']
  t.strictSame(appender.locate(1, eventIds, fingerprintsFor(1, eventIds)), [
    { sequence: 1, index: 9 },
    { sequence: 2, index: 0 },
    { sequence: 2, index: 9 },
    undefined,
  ])
})
