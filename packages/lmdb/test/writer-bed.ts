import { join } from 'node:path'
import type { BatchEvents } from '@ingest/core'
import { column, hashId, scanBatch, wordsPerEvent } from '@ingest/core/internal'
import { openProjects } from '../src/entries/projects.ts'
import { type Environment, openEnvironment } from '../src/environment/environment.ts'
import { readSequence } from '../src/environment/row-keys.ts'
import { fingerprint, fingerprintBits } from '../src/ids/fingerprint.ts'
import { encodeRecord, fingerprintsIn, sealRecord } from '../src/log/record.ts'
import { createCommitState } from '../src/threads/commit-state.ts'
import type { BatchToAppend } from '../src/writer/append-batch.ts'
import type { WriterData } from '../src/writer/writer.ts'

/** The environment and data of a writer, in a directory of its own. */
export interface WriterBed {
  environment: Environment
  data: WriterData
  /** The sequence numbers of the log, as they are committed. */
  sequences(): number[]
  /** When each project was created. */
  projects(): Record<string, number>
}

export async function openWriterBed(directory: string, entriesPerFlush = 1000): Promise<WriterBed> {
  const environment = await openEnvironment(join(directory, 'events'))
  const log = environment.table('log')
  const projects = openProjects(environment.table)
  return {
    environment,
    data: {
      directory: join(directory, 'events'),
      fileIds: environment.fileIds,
      idsDirectory: join(directory, 'ids'),
      seed: hashKey.toString('hex'),
      entriesPerFlush,
      fingerprintBits,
      guards: new Int32Array(new SharedArrayBuffer(8)),
      commitState: createCommitState(),
      seen: new BigInt64Array(new SharedArrayBuffer(8)),
    },
    sequences() {
      environment.root.resetReadTxn()
      return Array.from(log.getKeys(), readSequence)
    },
    projects() {
      environment.root.resetReadTxn()
      return Object.fromEntries(projects.ids().map((projectId) => [projectId, projects.get(projectId)?.createdAt ?? 0]))
    },
  }
}

const hashKey = Buffer.alloc(16, 7)

/** Fingerprints as the store makes them. */
export function fingerprintsFor(project: number, eventIds: readonly string[]): Uint32Array {
  const fingerprints = new Uint32Array(eventIds.length * 2)
  for (const [i, eventId] of eventIds.entries()) fingerprint(project, ...hashId(hashKey, eventId), fingerprints, i * 2)
  return fingerprints
}

/** A batch with these events. */
export function batchToAppend(project: number, eventIds: readonly string[]): BatchToAppend {
  const events = eventIds.map((eventId) => ({ projectId: 'p', eventId }))
  // in memory of its own, which can be transferred
  const body = Uint8Array.from(Buffer.from(JSON.stringify({ events })))
  const { rows, builds } = scanBatch(Buffer.from(body), 'p', hashKey) as BatchEvents
  const fingerprints = fingerprintsFor(project, eventIds)
  for (const [i] of eventIds.entries()) {
    rows.set(fingerprints.subarray(i * 2, i * 2 + 2), i * wordsPerEvent + column.hashHigh)
  }
  return { project, body, rows, builds, receivedAt: 1_000 }
}

/** The record of a batch of project 1, which has all records before it. */
export function recordAt(sequence: number, eventIds: readonly string[], receivedAt = 1_000): Buffer {
  const { body, rows } = batchToAppend(1, eventIds)
  const record = encodeRecord(body, rows, receivedAt)
  sealRecord(record, { sequence, project: 1, ordinal: sequence }, receivedAt)
  return record
}

/** Like {@link recordAt}, for events with these fingerprints. */
export function recordWith(sequence: number, fingerprints: Uint32Array): Buffer {
  const record = recordAt(
    sequence,
    Array.from(fingerprints.subarray(fingerprints.length / 2), (_, i) => `${i}`),
  )
  fingerprintsIn(record).set(fingerprints)
  sealRecord(record, { sequence, project: 1, ordinal: sequence }, 1_000)
  return record
}

/** The command that writes a project over the one that was created at `createdBefore`, or a new one. */
export function putProject(projectId: string, createdAt: number, createdBefore?: number) {
  const projectOf = (createdAt: number) => ({ projectId, createdAt, keys: [] })
  const before = createdBefore === undefined ? '' : JSON.stringify(projectOf(createdBefore))
  const after = JSON.stringify(projectOf(createdAt))
  return { type: 'putEntry', kind: 'project', projectId, before, after } as const
}
