import { useContext, useEffect, useState } from 'preact/hooks'
import type { RequestError } from '../../api/request-error.ts'
import { ConnectionContext, repeat } from '../../api/use-api.ts'
import { formatCount, formatCountOf, formatShare, formatSpan } from '../../format.ts'
import { Failure } from '../../parts/notice.tsx'
import { Time } from '../../parts/time.tsx'
import { Value } from '../../parts/value.tsx'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { ReadingGoal, SampleProgress, SampleQuery } from '../../worker/samples.ts'

/** `bounded`: more can be read on request; `full`: more does not fit in memory; `end`: everything was read. */
type ReadingStatus = 'reading' | 'stopped' | 'bounded' | 'full' | 'end' | 'failed'

export interface Reading {
  status: ReadingStatus
  /** Everything read so far. */
  progress: SampleProgress | undefined
  error: RequestError | undefined
  stop(): void
  /** Reads as much again as was read so far. */
  readMore(): void
}

/** The amount that is read initially: a few seconds within the default limits. */
const firstGoal: ReadingGoal = { windows: 128, events: 100_000 }
/** Maximum number of events of one sample. */
const eventsMax = 500_000

const liveMs = 5_000

/**
 * Reads a sample step by step, and resumes after failures. In a live range, also reads new events. Does nothing if
 * `query` is undefined.
 */
export function useReading(call: CallWorker, query: SampleQuery | undefined, isLive: boolean): Reading {
  const connection = useContext(ConnectionContext)
  const [goal, setGoal] = useState<ReadingGoal | undefined>(firstGoal)
  const [state, setState] = useState<Pick<Reading, 'status' | 'progress' | 'error'>>(nothing)

  useEffect(() => {
    if (!goal || !query) return
    const ending = new AbortController()
    const { signal } = ending
    setState((before) => ({ ...before, status: 'reading', error: undefined }))
    const onProgress = (progress: SampleProgress) => setState((before) => ({ ...before, progress }))
    async function read(query: SampleQuery, goal: ReadingGoal): Promise<number | undefined> {
      const progress = await call(
        'whereRead',
        { query, goal, ...(isLive && { until: Date.now() }) },
        { signal, onProgress },
      )
      const status = statusOf(progress, goal)
      setState({ status, progress, error: undefined })
      if (status === 'reading') return 0
      return isLive && status !== 'full' ? liveMs : undefined
    }
    const onError = (error: RequestError) =>
      setState((before) => ({ ...before, error, ...(!error.isRetried && { status: 'failed' as const }) }))
    void repeat(() => read(query, goal), { connection, signal, onError })
    return () => ending.abort()
  }, [call, query, goal, isLive, connection])
  // do not show the result of other inputs
  useEffect(
    () => () => {
      setState(nothing)
      setGoal(firstGoal)
    },
    [call, query],
  )

  return {
    ...state,
    stop() {
      setGoal(undefined)
      setState((before) => ({ ...before, status: 'stopped', error: undefined }))
    },
    readMore() {
      const { windows, events } = state.progress ?? { windows: 0, events: 0 }
      setGoal({
        windows: Math.max(firstGoal.windows, 2 * windows),
        events: Math.min(eventsMax, Math.max(firstGoal.events, 2 * events)),
      })
    },
  }
}

const nothing = { status: 'reading', progress: undefined, error: undefined } as const

function statusOf({ share, events, windows }: SampleProgress, goal: ReadingGoal): ReadingStatus {
  if (share === 1) return 'end'
  if (events >= eventsMax) return 'full'
  return windows >= goal.windows || events >= goal.events ? 'bounded' : 'reading'
}

interface ReadingLineProps {
  reading: Reading
  /** The name of the build, if there are two. */
  name: string | undefined
  /** The number of events according to the server's activity, if known. */
  counted: number | undefined
}

/** Shows how many of the events were read, with buttons to stop and continue. */
export function ReadingLine({ reading, name, counted }: ReadingLineProps) {
  const { status, progress, error, stop, readMore } = reading
  // hitting the read rate limit is expected while reading
  const isLimited = error?.kind === 'limited'
  const retryAfterMs = error?.retryAfterMs
  return (
    <>
      {error && !isLimited && <Failure error={error} what="return events" />}
      <div class="reading line">
        <p role="status">
          {name !== undefined && (
            <>
              <strong>
                <Value text={name} />
              </strong>
              :{' '}
            </>
          )}
          {isLimited && `Waiting${retryAfterMs ? ` ${formatSpan(retryAfterMs)}` : ''} for the read rate limit. `}
          {status === 'reading' && !isLimited && 'Reading… '}
          {progress && describeSample(progress, counted)}
          {progress && (
            <>
              {' '}
              Until <Time at={progress.until} />.
            </>
          )}
          {status === 'stopped' && ' Stopped.'}
          {status === 'full' && ` A sample has at most ${formatCount(eventsMax)} events.`}
        </p>
        {status === 'reading' && (
          <button type="button" onClick={stop}>
            Stop
          </button>
        )}
        {(status === 'stopped' || status === 'bounded') && (
          <button type="button" onClick={readMore}>
            Read more
          </button>
        )}
      </div>
    </>
  )
}

/**
 * Describes a sample. The total is the server's count, or else an estimate from the share of windows that were read.
 */
function describeSample({ events, share, isFiltered }: SampleProgress, counted = 0): string {
  const found = formatCountOf(events, isFiltered ? 'matching event' : 'event')
  if (share === 1) return `All ${found} of the range.`
  if (events === 0) return `No ${isFiltered ? 'matching events' : 'events'} in ${formatShare(share, 1)} of the range.`
  // counts cover whole minutes or hours
  const isCounted = counted > events
  const total = isCounted ? counted : Number((events / share).toPrecision(2))
  const of = `${formatShare(events, total)} of ${isCounted ? 'about' : 'an estimated'} ${formatCount(total)}`
  return `A sample of ${found}: ${of}, spread evenly over the range.`
}
