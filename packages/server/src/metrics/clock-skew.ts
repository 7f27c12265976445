/** The most often a batch is sampled, in milliseconds: parsing it again takes up to about a millisecond. */
const sampleEveryMs = 1000

/**
 * Samples how far the newest timestamp of a batch is behind the clock, in seconds. Returns a function that passes the
 * sample on, or undefined for a batch that is not sampled.
 */
export function createSkewSampler(
  onSample: (projectId: string, seconds: number) => void,
  now: () => number,
): (projectId: string, body: Uint8Array) => (() => void) | undefined {
  let sampledAt = Number.NEGATIVE_INFINITY
  return (projectId, body) => {
    const time = now()
    // the clock may be set back
    if (Math.abs(time - sampledAt) < sampleEveryMs) return undefined
    sampledAt = time
    const newest = newestTimestamp(body)
    return newest === undefined ? undefined : () => onSample(projectId, (time - newest) / 1000)
  }
}

/** Milliseconds since 1970; undefined for a body without valid timestamps. */
function newestTimestamp(body: Uint8Array): number | undefined {
  let newest = Number.NEGATIVE_INFINITY
  try {
    const { events } = JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.length).toString())
    for (const { timestamp } of events) {
      const time = typeof timestamp === 'string' ? Date.parse(timestamp) : timestamp
      if (typeof time === 'number' && time > newest) newest = time
    }
  } catch {
    // an invalid batch
  }
  return Number.isFinite(newest) ? newest : undefined
}
