import { useContext, useEffect, useState } from 'preact/hooks'
import type { RequestError } from '../../api/request-error.ts'
import { ConnectionContext, repeat } from '../../api/use-api.ts'
import { formatCount, formatCountOf } from '../../format.ts'
import { Failure } from '../../parts/notice.tsx'
import { Time } from '../../parts/time.tsx'
import { Value } from '../../parts/value.tsx'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { ReadingGoal, SampleAsk, SampleProgress } from '../../worker/samples.ts'
import { formatPercent } from './format-units.ts'

/** `bounded`: there is more, which is read when asked for; `full`: more does not fit; `end`: everything was read. */
type ReadingStatus = 'reading' | 'stopped' | 'bounded' | 'full' | 'end' | 'failed'

export interface Reading {
  status: ReadingStatus
  /** Everything read so far. */
  progress: SampleProgress | undefined
  error: RequestError | undefined
  stop(): void
  /** As much again as was read. */
  readMore(): void
}

/** What is read before the view asks: a few seconds within the default limits. */
const firstGoal: ReadingGoal = { windows: 128, events: 100_000 }
/** Events of one sample at most. */
const eventsMax = 500_000

const liveMs = 5_000

/**
 * Reads a sample step by step, and continues after failures where it was; of a live range then also what comes. Without
 * an ask, nothing.
 */
export function useReading(call: CallWorker, ask: SampleAsk | undefined, isLive: boolean): Reading {
  const connection = useContext(ConnectionContext)
  const [goal, setGoal] = useState<ReadingGoal | undefined>(firstGoal)
  const [state, setState] = useState<Pick<Reading, 'status' | 'progress' | 'error'>>(nothing)

  useEffect(() => {
    if (!goal || !ask) return
    const ending = new AbortController()
    const { signal } = ending
    setState((before) => ({ ...before, status: 'reading', error: undefined }))
    const onProgress = (progress: SampleProgress) => setState((before) => ({ ...before, progress }))
    async function read(ask: SampleAsk, goal: ReadingGoal): Promise<number | undefined> {
      const progress = await call(
        'whereRead',
        { ask, goal, ...(isLive && { until: Date.now() }) },
        { signal, onProgress },
      )
      const status = statusOf(progress, goal)
      setState({ status, progress, error: undefined })
      if (status === 'reading') return 0
      return isLive && status !== 'full' ? liveMs : undefined
    }
    const onError = (error: RequestError) =>
      setState((before) => ({ ...before, error, ...(!error.isRetried && { status: 'failed' as const }) }))
    void repeat(() => read(ask, goal), { connection, signal, onError })
    return () => ending.abort()
  }, [call, ask, goal, isLive, connection])
  // a result of other inputs is not shown
  useEffect(
    () => () => {
      setState(nothing)
      setGoal(firstGoal)
    },
    [call, ask],
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
  /** Of the build, beside another one. */
  name: string | undefined
  /** How many events the servers counted, if that is known. */
  counted: number | undefined
}

/** How much was read of how many events, with buttons to stop and continue. */
export function ReadingLine({ reading, name, counted }: ReadingLineProps) {
  const { status, progress, error, stop, readMore } = reading
  // waiting for the read rate limit is expected while reading
  const isLimited = error?.kind === 'limited'
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
          {isLimited && `Waiting${waitOf(error)} for the read rate limit. `}
          {status === 'reading' && !isLimited && 'Reading… '}
          {progress && describeSample(progress, counted)}
          {progress && (
            <>
              {' '}
              Until <Time at={progress.until} />.
            </>
          )}
          {status === 'stopped' && ' Stopped.'}
          {status === 'full' && ` ${formatCount(eventsMax)} events are the most that fit.`}
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

function waitOf({ retryAfterMs }: RequestError): string {
  return retryAfterMs ? ` ${Math.ceil(retryAfterMs / 1000)} s` : ''
}

/** The total is what the servers counted, else an estimate: of each window, all events were read. */
function describeSample({ events, share }: SampleProgress, counted = 0): string {
  if (share === 1) return `All ${formatCountOf(events, 'event')} of the range.`
  if (events === 0) return `No events in ${formatPercent(share)} of the range.`
  // counts are of whole minutes or hours
  const isCounted = counted > events
  const total = isCounted ? counted : Number((events / share).toPrecision(2))
  const of = `${formatPercent(events / total)} of ${isCounted ? 'about' : 'an estimated'} ${formatCount(total)}`
  return `A sample of ${formatCountOf(events, 'event')}: ${of}, spread evenly over the range.`
}
