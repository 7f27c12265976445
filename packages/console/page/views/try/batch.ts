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

/** Why the text is no batch; undefined if it is one. The server checks its limits. */
export function findBatchProblem(text: string): string | undefined {
  try {
    const batch = JSON.parse(text) as { events?: unknown } | null
    return Array.isArray(batch?.events) ? undefined : 'A batch is an object with an array "events".'
  } catch (error) {
    return `Not JSON: ${(error as Error).message}.`
  }
}

/** The ids of the events of a batch by their index; null for an event without one. */
export function eventIdsOf(text: string): (string | null)[] {
  const { events } = JSON.parse(text) as { events: unknown[] }
  return events.map((event) => {
    const { eventId } = (event ?? {}) as { eventId?: unknown }
    return typeof eventId === 'string' ? eventId : null
  })
}
