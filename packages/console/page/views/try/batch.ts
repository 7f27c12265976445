import { send } from '../../api/api.ts'
import type { Session } from '../../api/session.ts'
import { quoteForShell } from '../../shell-quote.ts'

export const batchPath = 'v1/events/batch'

/** A valid batch of events with new ids. They name no build, because that would be frozen. */
export function sampleBatch(projectId: string, id = randomId()): string {
  const at = new Date().toISOString()
  const events = [
    { projectId, eventId: `try-${id}-1`, type: 'console.try', timestamp: at, playerId: 7, note: "it's a test" },
    { projectId, eventId: `try-${id}-2`, type: 'console.try', timestamp: at, position: { x: 12.5, y: 0, z: -3 } },
  ]
  return JSON.stringify({ events }, null, 2)
}

// randomUUID exists only on pages served with TLS
function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(6)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Why the text is not a batch; undefined if it is one. The server checks the limits. */
export function findBatchProblem(text: string): string | undefined {
  try {
    const batch = JSON.parse(text) as { events?: unknown } | null
    return Array.isArray(batch?.events) ? undefined : 'A batch is an object with an array "events".'
  } catch (error) {
    return `Not JSON: ${(error as Error).message}.`
  }
}

/** The event ids of a batch, by index; null for an event without one. */
export function eventIdsOf(text: string): (string | null)[] {
  const { events } = JSON.parse(text) as { events: unknown[] }
  return events.map((event) => {
    const { eventId } = (event ?? {}) as { eventId?: unknown }
    return typeof eventId === 'string' ? eventId : null
  })
}

/** The response to a batch. */
export interface BatchResponse {
  status: number
  /** The reason phrase of HTTP/1.1; may be empty. */
  statusText: string
  /** The exact text. */
  body: string
  requestId: string | null
  /** In seconds. */
  retryAfter: number | undefined
  durationMs: number
}

/**
 * Sends a batch and resolves with the response, whatever its status: a refused key does not sign the page out. Rejects
 * if there is no response.
 */
export async function sendBatch(session: Session, body: string): Promise<BatchResponse> {
  const sentAt = performance.now()
  const response = await send(session, batchPath, { method: 'POST', body })
  const text = await response.text()
  const retryAfter = Number.parseInt(response.headers.get('Retry-After') ?? '', 10)
  return {
    status: response.status,
    statusText: response.statusText,
    body: text,
    requestId: response.headers.get('X-Request-Id'),
    retryAfter: Number.isNaN(retryAfter) ? undefined : retryAfter,
    durationMs: performance.now() - sentAt,
  }
}

/** Linux refuses an argument of more than 131,071 bytes; one character of the body, such as `'`, may take four. */
const argumentCharactersMax = 30_000

/** A command that sends the same batch from a POSIX shell, with the key in the environment variable INGEST_KEY. */
export function curlCommand(url: string, projectId: string, body: string): string {
  const isLong = body.length > argumentCharactersMax
  const options = [
    `curl ${quoteForShell(url)}`,
    `-H ${quoteForShell(`X-Project-Id: ${projectId}`)}`,
    '-H "X-Ingestion-Key: $INGEST_KEY"',
    `-H ${quoteForShell('Content-Type: application/json')}`,
    // not --data, which reads a file if the text begins with @
    isLong ? '--data-binary @-' : `--data-raw ${quoteForShell(body)}`,
  ]
  const command = options.join(' \\\n  ')
  // printf is a shell builtin, whose arguments may have any size
  return isLong ? `printf %s ${quoteForShell(body)} |\n  ${command}` : command
}
