import { createIngest, type EmbeddedIngest, type Ingest, type IngestOptions, openMemoryStore } from '@ingest/core'
import type { Log, LogLevel } from '../src/log.ts'

export const projectId = 'game-1'

/** An Ingest, by default on a memory store, the headers of an authenticated sender, and the number of stored events. */
export async function openTestIngest(given: Omit<IngestOptions, 'store'> | EmbeddedIngest = {}) {
  const ingest = 'project' in given ? given : createIngest({ store: openMemoryStore(), ...given })
  const { key } = await ingest.keys.create(projectId)
  return { ingest, key, headers: headersOf(key), storedCount: () => countEvents(ingest) }
}

/** An Ingest that blocks every request in authentication until `release` is called. */
export async function openBlockedIngest() {
  let release = () => {}
  const isReleased = new Promise<void>((resolve) => {
    release = resolve
  })
  let onHandle = () => {}
  const isHandled = new Promise<void>((resolve) => {
    onHandle = resolve
  })
  let handled = 0
  const opened = await openTestIngest({
    authenticate: async () => {
      handled++
      onHandle()
      await isReleased
      return true
    },
  })
  return { ...opened, release, /** Resolves with the first request. */ isHandled, handledCount: () => handled }
}

export function headersOf(key: string, project = projectId): [string, string][] {
  return [
    ['X-Project-Id', project],
    ['X-Ingestion-Key', key],
    ['Content-Type', 'application/json'],
  ]
}

/** A batch of events with the ids `<prefix>0`, `<prefix>1`, … */
export function batchOf(count: number, prefix = 'e-'): string {
  const events = Array.from({ length: count }, (_, i) => ({ projectId, eventId: `${prefix}${i}` }))
  return JSON.stringify({ events })
}

/** A batch of one event, of exactly `size` bytes. */
export function batchOfBytes(size: number, eventId = 'big'): string {
  const empty = JSON.stringify({ events: [{ projectId, eventId, filler: '' }] })
  return JSON.stringify({ events: [{ projectId, eventId, filler: 'x'.repeat(size - empty.length) }] })
}

async function countEvents(ingest: EmbeddedIngest): Promise<number> {
  let count = 0
  for await (const _ of ingest.project(projectId).readEvents()) count++
  return count
}

/** An Ingest in which some methods of every project are replaced. */
export function withMethods(ingest: EmbeddedIngest, replace: (project: Ingest) => Partial<Ingest>): EmbeddedIngest {
  return {
    ...ingest,
    project(id) {
      const project = ingest.project(id)
      return { ...project, ...replace(project) }
    },
  }
}

export type Line = [level: LogLevel, message: string, fields: Record<string, unknown>]

/** A log that collects its lines from a level on. */
export function collectLines(from: LogLevel = 'debug'): { log: Log; lines: Line[] } {
  const levels: LogLevel[] = ['debug', 'info', 'warn', 'error']
  const isLevelEnabled = (level: LogLevel) => levels.indexOf(level) >= levels.indexOf(from)
  const lines: Line[] = []
  const add = (level: LogLevel) => (fields: object, message: string) => {
    lines.push([level, message, fields as Record<string, unknown>])
  }
  return {
    log: { debug: add('debug'), info: add('info'), warn: add('warn'), error: add('error'), isLevelEnabled },
    lines,
  }
}

/** A log that collects its errors. */
export function collectErrors(): { log: Log; errors: object[] } {
  const errors: object[] = []
  return { log: { debug() {}, info() {}, warn() {}, error: (fields) => void errors.push(fields) }, errors }
}
