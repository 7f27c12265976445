export interface CutRules<E> {
  /** Maximum bytes of a part; a larger event becomes a part of its own. */
  bytesMax: number
  bytesOf(event: E): number
  /** Cuts at each hour or day in UTC too, and leaves out the current one. */
  every?: Period
  /** Cuts at each hour in UTC too. */
  hourly?: boolean
  /** Current time in milliseconds since 1970. */
  now: number
}

/** A period of time in UTC. */
export type Period = keyof typeof periodsMs

export const periodsMs = { hour: 3_600_000, day: 86_400_000 } as const

/** One or more consecutive events. */
export interface Part<E> {
  first: E
  events: AsyncIterable<E>
}

/**
 * Cuts events into parts, in order. Read each part to its end before requesting the next one.
 *
 * With `every`, it stops before the first event of the current hour or day, so that each part covers a whole one. The
 * next hour or day counts as current too, because clocks differ. Events with later times were received while a clock
 * was wrong and are not held back: that would block the export.
 *
 * An error of `source` is thrown after the part before it has ended, so that all events before the error are used.
 */
export async function* cutEvents<E extends { receivedAt: number }>(
  source: AsyncIterable<E>,
  { bytesMax, bytesOf, every, hourly = false, now }: CutRules<E>,
): AsyncGenerator<Part<E>, void> {
  const events = source[Symbol.asyncIterator]()
  const numberOf = (time: number, period: Period | undefined) =>
    period === undefined ? 0 : Math.floor(time / periodsMs[period])
  // an hour never spans two days, so cuts by the hour are cuts by the day too
  const periodOf = ({ receivedAt }: E) => numberOf(receivedAt, hourly ? 'hour' : every)
  const current = numberOf(now, every)
  let failure: { error: unknown } | undefined
  let next = await step()

  async function step(): Promise<E | undefined> {
    try {
      const { done, value } = await events.next()
      return done || isCurrent(value) ? undefined : value
    } catch (error) {
      failure = { error }
      return undefined
    }
  }

  function isCurrent({ receivedAt }: E): boolean {
    const ahead = numberOf(receivedAt, every) - current
    return every !== undefined && (ahead === 0 || ahead === 1)
  }

  async function* part(first: E): AsyncGenerator<E, void> {
    let bytes = 0
    for (let event: E | undefined = first; event; event = belongs(next) ? next : undefined) {
      bytes += bytesOf(event)
      yield event
      next = await step()
    }

    function belongs(event: E | undefined): boolean {
      return event !== undefined && bytes + bytesOf(event) <= bytesMax && periodOf(event) === periodOf(first)
    }
  }

  try {
    while (next) yield { first: next, events: part(next) }
    if (failure) throw failure.error
  } finally {
    await events.return?.()
  }
}
