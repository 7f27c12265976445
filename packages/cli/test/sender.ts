import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { ingest } from './run-ingest.ts'

export const projectId = 'game-1'

/** A server, and whose events are sent to it. */
export interface Sender {
  url: string
  key: string
  /** `game-1` without. */
  projectId?: string
}

export interface Sent {
  status: number
  headers: Headers
  body: { accepted?: number; duplicates?: number; rejected?: unknown[]; code?: string }
}

/** Makes a key, and the store when it is new: as the command does, and sooner. */
export async function createKey(data: string): Promise<string> {
  const { keys, close } = createIngest({ store: await openLmdbStore(data) })
  const { key } = await keys.create(projectId)
  await close()
  return key
}

/** Sends a batch: the ids of small events, or a body as it is. */
export async function send(sender: Sender, batch: readonly string[] | string): Promise<Sent> {
  const { url, key, projectId: project = projectId } = sender
  const response = await fetch(`${url}/v1/events/batch`, {
    method: 'POST',
    headers: { 'X-Project-Id': project, 'X-Ingestion-Key': key, 'Content-Type': 'application/json' },
    body: typeof batch === 'string' ? batch : batchOf(batch, project),
  })
  return { status: response.status, headers: response.headers, body: (await response.json()) as Sent['body'] }
}

export function batchOf(eventIds: readonly string[], project = projectId): string {
  return JSON.stringify({ events: eventIds.map((eventId) => ({ projectId: project, eventId })) })
}

/** `<name>-0`, `<name>-1`, … */
export function idsOf(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${name}-${i}`)
}

/** A line of `ingest export`, and the event exactly as it stands there. */
export interface ExportedLine {
  cursor: string
  receivedAt: number
  event: string
}

export function parseExport(stdout: string): ExportedLine[] {
  return stdout.split('\n').flatMap((line) => {
    if (line === '') return []
    const { cursor, receivedAt } = JSON.parse(line)
    return { cursor, receivedAt, event: line.slice(line.indexOf('"event":') + '"event":'.length, -1) }
  })
}

/** All events that `ingest export` gives, exactly as they stand there and in its order. */
export async function exportedEvents(data: string): Promise<string[]> {
  const { code, stdout, stderr } = await ingest(['export', '--data', data, '--project', projectId])
  if (code !== 0) throw new Error(stderr)
  return parseExport(stdout).map(({ event }) => event)
}

/** Their ids. */
export async function exportedIds(data: string): Promise<string[]> {
  return (await exportedEvents(data)).map((event) => JSON.parse(event).eventId)
}

/** So many events, a line each, of which the ids begin with a name. */
export function linesOf(name: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `{"projectId":"${projectId}","eventId":"${name}-${i}","n":${i}}`)
}
