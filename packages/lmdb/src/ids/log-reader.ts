import { IngestError } from '@ingest/core'
import type { Environment, Table } from '../environment/environment.ts'
import { readSequence, sequenceKey } from '../environment/row-keys.ts'
import { readChecksum, readFingerprints } from '../log/record.ts'

/** The reads of the log that the index needs. */
export interface LogReader {
  /** The most events of one record. */
  entriesPerRecordMax: number
  /** Lets later reads see what is committed by now. */
  refresh(): void
  /** The number of the last record, 0 for an empty log. */
  lastSequence(): number
  /**
   * The fingerprints of the events of a record, high and low halves.
   *
   * @throws {IngestError} `store-damaged`
   */
  fingerprints(sequence: number): Uint32Array
  /** The checksum of a record, not verified; 0 for a missing one. */
  checksum(sequence: number): number
}

/** Positions have 8 bits for the index of an event in its record. */
const entriesPerRecordMax = 256

export function createLogReader(environment: Environment, log: Table): LogReader {
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
    entriesPerRecordMax,
    refresh: () => environment.root.resetReadTxn(),
    lastSequence() {
      const [last] = [...log.getKeys({ reverse: true, limit: 1 })]
      return last ? readSequence(last) : 0
    },
    fingerprints(sequence) {
      return readFingerprints(get(sequence), sequence)
    },
    checksum(sequence) {
      return readChecksum(get(sequence))
    },
  }
}

/** The progress of a rebuild of the id index. */
export interface RebuildProgress {
  /** Records of the log. */
  done: number
  total: number
}
