import { formatCount, formatCountOf } from '../../format.ts'
import { Failure } from '../../parts/notice.tsx'
import { Time } from '../../parts/time.tsx'
import { eventsMax, eventsPerRun, type Reading } from './use-reading.ts'

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
