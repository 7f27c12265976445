import { useContext, useEffect, useMemo, useState } from 'preact/hooks'
import type { RequestError } from '../../api/request-error.ts'
import { ConnectionContext, repeat } from '../../api/use-api.ts'
import { formatCount, formatCountOf } from '../../format.ts'
import { Failure } from '../../parts/notice.tsx'
import { Time } from '../../parts/time.tsx'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { ReadProgress } from '../../worker/where-calls.ts'

/** `bounded`: there may be more, which is read when asked for; `full`: more does not fit. */
type ReadingStatus = 'reading' | 'stopped' | 'bounded' | 'full' | 'end' | 'failed'

interface Reading {
  status: ReadingStatus
  /** Everything read so far. */
  progress: ReadProgress | undefined
  error: RequestError | undefined
  stop(): void
  /** Reads on: the remaining events, or those since the end. */
  readMore(): void
}

/** Events read before the view asks. */
const eventsPerRun = 200_000
/** Events that the worker keeps at most: their numbers take up to 320 bytes each. */
const eventsMax = 1_000_000

let readings = 0

/** Reads the events of a build page by page, and continues after failures where it was. */
export function useReading(
  call: CallWorker,
  { buildId, from, wanted }: { buildId: string; from: string | undefined; wanted: readonly string[] },
): Reading {
  const connection = useContext(ConnectionContext)
  const inputs = [call, buildId, wanted.join('\n')]
  // another number makes the worker start over
  const number = useMemo(() => ++readings, inputs)
  const [run, setRun] = useState({ number, until: eventsPerRun })
  const [state, setState] = useState<Pick<Reading, 'status' | 'progress' | 'error'>>(nothing)
  const until = run.number === number ? run.until : eventsPerRun

  useEffect(() => {
    if (until === 0) return
    const ending = new AbortController()
    const { signal } = ending
    setState((before) => ({ ...before, status: 'reading', error: undefined }))
    async function read(): Promise<number | undefined> {
      const progress = await call('whereRead', { number, buildId, from, wanted }, { signal })
      const status = statusOf(progress, until)
      setState({ status, progress, error: undefined })
      return status === 'reading' ? 0 : undefined
    }
    const onError = (error: RequestError) =>
      setState((before) => ({ ...before, error, ...(!error.isRetried && { status: 'failed' as const }) }))
    void repeat(read, { connection, signal, onError })
    return () => ending.abort()
  }, [number, run, connection])
  // a result of other inputs is not shown
  useEffect(() => () => setState(nothing), inputs)

  return {
    ...state,
    stop() {
      setRun({ number, until: 0 })
      setState((before) => ({ ...before, status: 'stopped', error: undefined }))
    },
    readMore: () => setRun({ number, until: Math.min(eventsMax, (state.progress?.events ?? 0) + eventsPerRun) }),
  }
}

const nothing = { status: 'reading', progress: undefined, error: undefined } as const

function statusOf({ isEnd, events }: ReadProgress, until: number): ReadingStatus {
  if (isEnd) return 'end'
  if (events >= eventsMax) return 'full'
  return events >= until ? 'bounded' : 'reading'
}

/** The progress of reading, with buttons to stop and continue. */
export function ReadingLine({ reading: { status, progress, error, stop, readMore } }: { reading: Reading }) {
  // waiting for the read rate limit is expected while reading a large build
  const isFailure = error && error.kind !== 'limited'
  return (
    <>
      {isFailure && <Failure error={error} what="return events" />}
      <div class="reading line">
        <p role="status">
          {status === 'reading' && (error?.kind === 'limited' ? 'Waiting for the read rate limit. ' : 'Reading… ')}
          {progress && progress.events > 0 && (
            <>
              {formatCountOf(progress.events, 'event')} read, received <Time at={progress.from} /> to{' '}
              <Time at={progress.to} />.{' '}
            </>
          )}
          {status === 'end' && 'These are all events of the build so far.'}
          {status === 'stopped' && 'Stopped: later events are not shown.'}
          {status === 'bounded' && 'Later events are not read yet.'}
          {status === 'full' && `Later events are not shown: ${formatCount(eventsMax)} is the maximum.`}
        </p>
        {status === 'reading' && (
          <button type="button" onClick={stop}>
            Stop
          </button>
        )}
        {(status === 'stopped' || status === 'bounded') && (
          <button type="button" onClick={readMore}>
            Read up to {formatCount(eventsPerRun)} more
          </button>
        )}
        {status === 'end' && (
          <button type="button" onClick={readMore}>
            Read newer events
          </button>
        )}
      </div>
    </>
  )
}
