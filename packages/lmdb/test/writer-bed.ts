import { join } from 'node:path'
import { type Environment, openEnvironment } from '../src/environment/environment.ts'
import { readSequence } from '../src/environment/row-keys.ts'
import { createFingerprint } from '../src/ids/fingerprint.ts'
import { encodeRecord } from '../src/log/record.ts'
import type { WriterData } from '../src/writer/writer.ts'

/** What a writer needs, in a directory of its own. */
export interface WriterBed {
  environment: Environment
  data: WriterData
  /** The sequence numbers of the log, as they are committed. */
  sequences(): number[]
  /** What stands in the table `rows`. */
  rows(): Record<string, string>
}

export function openWriterBed(directory: string, entriesPerFlush = 1000): WriterBed {
  const environment = openEnvironment(join(directory, 'events'))
  const [log, rows] = [environment.table('log'), environment.table('rows')]
  return {
    environment,
    data: {
      directory: join(directory, 'events'),
      fileIds: environment.fileIds,
      idsDirectory: join(directory, 'ids'),
      seed: seed.toString('hex'),
      entriesPerFlush,
      guards: new Int32Array(new SharedArrayBuffer(8)),
    },
    sequences() {
      environment.root.resetReadTxn()
      return Array.from(log.getKeys(), readSequence)
    },
    rows() {
      environment.root.resetReadTxn()
      return Object.fromEntries(Array.from(rows.getRange(), ({ key, value }) => [String(key), String(value)]))
    },
  }
}

const seed = Buffer.alloc(8, 7)
const fingerprint = createFingerprint(seed)

/** Fingerprints as the store makes them. */
export function fingerprintsFor(project: number, eventIds: readonly string[]): Uint32Array {
  const fingerprints = new Uint32Array(eventIds.length * 2)
  for (const [i, eventId] of eventIds.entries()) fingerprint(project, eventId, fingerprints, i * 2)
  return fingerprints
}

/** The record of a batch with these events, each of which references a build of its own. */
export function recordOf(project: number, eventIds: readonly string[], members: object = {}): Buffer {
  const events = eventIds.map((eventId) => ({ eventId, buildId: `build-${eventId}`, ...members }))
  return encodeRecord(1_000, fingerprintsFor(project, eventIds), Buffer.from(JSON.stringify({ events })))
}

export function buildsFor(eventIds: readonly string[]): string[] {
  return eventIds.map((eventId) => `build-${eventId}`)
}
