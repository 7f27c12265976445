import { join } from 'node:path'
import type { BatchEvents } from '@ingest/core'
import { hashId, scanBatch } from '@ingest/core/internal'
import { type Environment, openEnvironment } from '../src/environment/environment.ts'
import { readSequence } from '../src/environment/row-keys.ts'
import { fingerprint } from '../src/ids/fingerprint.ts'
import { encodeRecord, readFingerprints } from '../src/log/record.ts'
import { openProjects } from '../src/tables/projects.ts'
import type { WriterData } from '../src/writer/writer.ts'

/** What a writer needs, in a directory of its own. */
export interface WriterBed {
  environment: Environment
  data: WriterData
  /** The sequence numbers of the log, as they are committed. */
  sequences(): number[]
  /** When each project was created. */
  projects(): Record<string, number>
}

export function openWriterBed(directory: string, entriesPerFlush = 1000): WriterBed {
  const environment = openEnvironment(join(directory, 'events'))
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
      guards: new Int32Array(new SharedArrayBuffer(8)),
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

/** The record of a batch with these events, each of which references a build of its own. */
export function recordOf(project: number, eventIds: readonly string[], members: object = {}): Buffer {
  const events = eventIds.map((eventId) => ({ projectId: 'p', eventId, buildId: `build-${eventId}`, ...members }))
  return encodeEventsOf(events, project)
}

/** A record of events without content that has these fingerprints. */
export function recordWith(fingerprints: Uint32Array): Buffer {
  const record = encodeEventsOf(
    Array.from(fingerprints.subarray(fingerprints.length / 2), (_, i) => ({ projectId: 'p', eventId: `${i}` })),
  )
  readFingerprints(record, 0).set(fingerprints)
  return record
}

function encodeEventsOf(events: object[], project = 1): Buffer {
  const body = Buffer.from(JSON.stringify({ events }))
  return encodeRecord(body, scanBatch(body, 'p', hashKey) as BatchEvents, project, fingerprint, 1_000)
}

/** The builds of {@link recordOf}, and the index of each event's. */
export function buildsFor(eventIds: readonly string[]): [builds: string[], buildIndexes: Uint8Array] {
  return [eventIds.map((eventId) => `build-${eventId}`), Uint8Array.from(eventIds.keys())]
}

/** The command that writes a project of the version that it had with `createdBefore`, or a new one. */
export function putProject(projectId: string, createdAt: number, createdBefore?: number) {
  const projectOf = (createdAt: number) => ({ projectId, createdAt, keys: [] })
  const version = createdBefore === undefined ? '' : JSON.stringify(projectOf(createdBefore))
  return { type: 'putProject', projectId, version, project: projectOf(createdAt) } as const
}
