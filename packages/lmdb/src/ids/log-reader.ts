import { IngestError } from '@ingest/core'
import type { Environment, Table } from '../environment/environment.ts'
import { sequenceKey } from '../environment/row-keys.ts'
import { lastSequenceIn } from '../log/event-log.ts'
import { readChecksum, readFingerprints } from '../log/record.ts'

/** The reads of the log that the index needs. */
export type LogReader = ReturnType<typeof createLogReader>

export function createLogReader(environment: Environment, log: Table) {
  function get(sequence: number): Uint8Array | undefined {
    try {
      return log.getBinaryFast(sequenceKey(sequence))
    } catch (cause) {
      // the log is damaged, not the index
      const { message } = cause as Error
      throw new IngestError('store-damaged', `Record ${sequence} of the log cannot be read: ${message}.`, { cause })
    }
  }

  return {
    /** Lets later reads see all records committed by now. */
    refresh: () => environment.root.resetReadTxn(),
    /** The number of the last record, 0 for an empty log. */
    lastSequence: () => lastSequenceIn(log),
    /**
     * The fingerprints of the events of a record, high and low halves.
     *
     * @throws {IngestError} `store-damaged`
     */
    fingerprints: (sequence: number) => readFingerprints(get(sequence), sequence),
    /** The checksum of a record, not verified; 0 for a missing one. */
    checksum: (sequence: number) => readChecksum(get(sequence)),
  }
}
