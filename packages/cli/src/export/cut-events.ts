/** What is cut: an event, and the line of NDJSON that it makes. */
export interface EventLine {
  /** Milliseconds since 1970. */
  receivedAt: number
  line: Uint8Array
}

export interface CutRules {
  /** The most bytes of lines of one part; an event of more than that is a part of its own. */
  lineBytesMax: number
  /** Whether each part is of one hour or day alone, in UTC. */
  every?: Period
  /** The clock, in milliseconds since 1970. */
  now: number
}

export type Period = keyof typeof periodsMs

const periodsMs = { hour: 3_600_000, day: 86_400_000 } as const

/** Events that belong together, at least one. */
export interface Part<E> {
  first: E
  events: AsyncIterable<E>
}

/**
 * Cuts events into parts, in their order. Each part has to be read to its end before the next one is asked for.
 *
 * With `every`, it ends before the first event of the hour or day that is not over, so that the part of an hour is
 * that whole hour. Clocks differ, so the one after it counts as not over, too; what is later still was received when a
 * clock was wrong, and waiting for its time to come would hold everything up.
 *
 * What `source` throws is thrown once the part that it was in has come to its end: what was read is not lost by it.
 */
export async function* cutEvents<E extends EventLine>(
  source: AsyncIterable<E>,
  { lineBytesMax, every, now }: CutRules,
): AsyncGenerator<Part<E>, void> {
  const events = source[Symbol.asyncIterator]()
  const periodOf = ({ receivedAt }: { receivedAt: number }) =>
    every === undefined ? 0 : Math.floor(receivedAt / periodsMs[every])
  const current = periodOf({ receivedAt: now })
  let failure: { error: unknown } | undefined
  let next = await step()

  async function step(): Promise<E | undefined> {
    try {
      const { done, value } = await events.next()
      return done || isNotOver(value) ? undefined : value
    } catch (error) {
      failure = { error }
      return undefined
    }
  }

  function isNotOver(event: E): boolean {
    const ahead = periodOf(event) - current
    return every !== undefined && (ahead === 0 || ahead === 1)
  }

  async function* part(first: E): AsyncGenerator<E, void> {
    let lineBytes = 0
    for (let event: E | undefined = first; event; event = belongs(next) ? next : undefined) {
      lineBytes += event.line.length
      yield event
      next = await step()
    }

    function belongs(event: E | undefined): boolean {
      return event !== undefined && lineBytes + event.line.length <= lineBytesMax && periodOf(event) === periodOf(first)
    }
  }

  try {
    while (next) yield { first: next, events: part(next) }
    if (failure) throw failure.error
  } finally {
    await events.return?.()
  }
}
