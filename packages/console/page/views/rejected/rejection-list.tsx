import { useState } from 'preact/hooks'
import { formatAddress } from '../../address.ts'
import type { Issue, RecentRejection } from '../../api/bodies.ts'
import { formatCount } from '../../format.ts'
import { EventText } from '../../parts/event-detail.tsx'
import { IssueName } from '../../parts/issue-name.tsx'
import { Time } from '../../parts/time.tsx'
import { Value } from '../../parts/value.tsx'
import type { KeyedRejection } from './rejections.ts'
import './rejected.css'

/** More take a noticeable pause to render. */
const pageSize = 100

/** Rejected events, each of which opens. */
export function RejectionList({ rejections }: { rejections: readonly KeyedRejection[] }) {
  const [shown, setShown] = useState(pageSize)
  const rest = rejections.length - shown
  return (
    <>
      <ul class="rejections">
        {rejections.slice(0, shown).map(({ key, rejection }) => (
          <li key={key}>
            <RejectionDetails rejection={rejection} />
          </li>
        ))}
      </ul>
      {rest > 0 && (
        <button type="button" onClick={() => setShown(shown + pageSize)}>
          Show {Math.min(pageSize, rest)} more ({formatCount(rest)} left)
        </button>
      )}
    </>
  )
}

function RejectionDetails({ rejection }: { rejection: RecentRejection }) {
  const { receivedAt, index, eventId, issues } = rejection
  const [isOpen, setOpen] = useState(false)
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        <Time at={receivedAt} />
        <span class="muted" title="Position in its batch, from 0">
          index {index}
        </span>
        {eventId === null ? (
          <span class="muted">no valid id</span>
        ) : (
          <code>
            <Value text={eventId} />
          </code>
        )}
        <IssueNames issues={issues} />
      </summary>
      {isOpen && <RejectionBody rejection={rejection} />}
    </details>
  )
}

const namesMax = 2

function IssueNames({ issues }: { issues: readonly Issue[] }) {
  return (
    <span class="names">
      {issues.slice(0, namesMax).map(({ code, path }) => (
        <span key={`${code} ${path}`}>
          <IssueName code={code} path={path} />
        </span>
      ))}
      {issues.length > namesMax && <span class="muted">and {issues.length - namesMax} more</span>}
    </span>
  )
}

function RejectionBody({ rejection: { eventId, issues, event } }: { rejection: RecentRejection }) {
  return (
    <div class="rejection">
      <ul class="issues">
        {issues.map(({ code, path, message }) => (
          <li key={`${code} ${path} ${message}`}>
            <IssueName code={code} path={path} /> <Value text={message} />
          </li>
        ))}
      </ul>
      {eventId !== null && (
        <p>
          <a href={formatAddress(['find'], { id: eventId })}>
            Find <Value text={eventId} />
          </a>{' '}
          <span class="muted">shows whether an event with this id is stored.</span>
        </p>
      )}
      {event !== undefined && <EventText text={event} />}
    </div>
  )
}
