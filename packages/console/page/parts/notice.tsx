import type { ComponentChildren } from 'preact'
import type { RequestError } from '../api/request-error.ts'
import { type Loaded, useConnection } from '../api/use-api.ts'
import { formatSpan } from '../format.ts'
import { Value } from './value.tsx'

/** Replaces content that is loading, empty or failed. */
export function Notice({ kind, children }: { kind: 'loading' | 'empty' | 'failed'; children: ComponentChildren }) {
  return (
    <p class={`notice ${kind}`} role={kind === 'failed' ? 'alert' : 'status'}>
      {children}
    </p>
  )
}

/**
 * Explains a failure, unless the page's banner does, which reports that the server does not respond. `what` completes
 * "This server does not …".
 */
export function Failure({ error, what = 'support this' }: { error: RequestError; what?: string }) {
  const { lostAt, retryNow } = useConnection()
  const { kind, isRetried, retryAfterMs } = error
  if (kind === 'offline' && lostAt !== undefined) return null
  return (
    <Notice kind="failed">
      <Value text={explain(error, what)} isMultiline />
      {isRetried && (
        <>
          {' '}
          Trying again{retryAfterMs ? ` in ${formatSpan(retryAfterMs)}` : ''}.{' '}
          <button type="button" onClick={retryNow}>
            Try now
          </button>
        </>
      )}
    </Notice>
  )
}

function explain({ kind, message, problem }: RequestError, what: string): string {
  switch (kind) {
    case 'unsupported':
      return `This server does not ${what}: it has another version, or does not serve this path.`
    case 'offline':
      return 'The server does not respond.'
    case 'unavailable':
      return `${problem.title ?? 'Unavailable'}: ${message}`
    case 'limited':
      return 'The read rate limit of the project is reached.'
    case 'unauthorized':
      return 'The key was refused.'
    default:
      return message
  }
}

/** Shows loaded data. If a reload fails, the old data stays visible below the failure. */
export function Content<Data>({
  loaded: { data, error },
  what,
  children,
}: {
  loaded: Loaded<Data>
  /** Completes "This server does not …". */
  what?: string
  children: (data: Data) => ComponentChildren
}) {
  return (
    <>
      {error && <Failure error={error} {...(what !== undefined && { what })} />}
      {data === undefined ? !error && <Notice kind="loading">Loading…</Notice> : children(data)}
    </>
  )
}
