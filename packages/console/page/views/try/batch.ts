import { formatBytes, formatCount } from '../../format.ts'

/** Limits of the server: see docs/http-api.md. */
const batchBytesMax = 262_144
const batchEventsMax = 100

/** A batch that the server accepts, of events with new ids and without a build, which it would freeze. */
export function sampleBatch(projectId: string, id = randomId()): string {
  const at = new Date().toISOString()
  const events = [
    { projectId, eventId: `try-${id}-1`, type: 'console.try', timestamp: at, playerId: 7, note: "it's a test" },
    { projectId, eventId: `try-${id}-2`, type: 'console.try', timestamp: at, position: { x: 12.5, y: 0, z: -3 } },
  ]
  return JSON.stringify({ events }, null, 2)
}

// randomUUID exists only where the page is served with TLS
function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(6)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Why the server will refuse the batch as a whole, as far as the page sees; undefined if it does not see any reason. */
export function findBatchProblem(text: string): string | undefined {
  const bytes = new TextEncoder().encode(text).length
  if (bytes > batchBytesMax)
    return `The batch has ${formatCount(bytes)} bytes; at most ${formatCount(batchBytesMax)} (${formatBytes(batchBytesMax)}) are accepted.`
  let batch: unknown
  try {
    batch = JSON.parse(text)
  } catch (error) {
    return `Not JSON: ${(error as Error).message}.`
  }
  const { events } = (batch ?? {}) as { events?: unknown }
  if (!Array.isArray(events)) return 'A batch is an object with an array "events".'
  if (events.length > batchEventsMax)
    return `The batch has ${formatCount(events.length)} events; at most ${batchEventsMax} are accepted.`
  return undefined
}

/** The ids of the events of a batch by their index; null for an event without one. */
export function eventIdsOf(text: string): (string | null)[] {
  const { events } = JSON.parse(text) as { events: unknown[] }
  return events.map((event) => {
    const { eventId } = (event ?? {}) as { eventId?: unknown }
    return typeof eventId === 'string' ? eventId : null
  })
}
