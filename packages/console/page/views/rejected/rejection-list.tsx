import { useState } from 'preact/hooks'
import { formatAddress } from '../../address.ts'
import type { Issue, Rejected } from '../../api/bodies.ts'
import { formatCount } from '../../format.ts'
import { JsonText } from '../../parts/json-text.tsx'
import { Time } from '../../parts/time.tsx'
import { formatPath, type NamedRejection } from './rejections.ts'
import './rejected.css'

/** So many appear without a noticeable pause. */
const pageSize = 100

/** Rejected events, each of which opens. */
export function RejectionList({ rejections }: { rejections: readonly NamedRejection[] }) {
  const [shown, setShown] = useState(pageSize)
  const rest = rejections.length - shown
  return (
    <>
      <ul class="rejections">
        {rejections.slice(0, shown).map(({ name, rejection }) => (
          <li key={name}>
            <RejectionDetails rejection={rejection} />
          </li>
        ))}
      </ul>
      {rest > 0 && (
        <button type="button" onClick={() => setShown(shown + pageSize)}>
          Show {formatCount(Math.min(rest, pageSize))} more of {formatCount(rest)}
        </button>
      )}
    </>
  )
}

function RejectionDetails({ rejection }: { rejection: Rejected }) {
  const { receivedAt, index, eventId, issues } = rejection
  const [isOpen, setOpen] = useState(false)
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        <Time at={receivedAt} />
        <span class="muted">index {index}</span>
        <code class="id">{eventId ?? 'no valid id'}</code>
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
          <code class="code">{code}</code> <code>{formatPath(path)}</code>
        </span>
      ))}
      {issues.length > namesMax && <span class="muted">and {issues.length - namesMax} more</span>}
    </span>
  )
}

function RejectionBody({ rejection: { eventId, issues, event } }: { rejection: Rejected }) {
  return (
    <div class="rejection">
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th scope="col">Path</th>
              <th scope="col">Code</th>
              <th scope="col">Message</th>
            </tr>
          </thead>
          <tbody>
            {issues.map(({ code, path, message }) => (
              <tr key={`${code} ${path}`}>
                <td>
                  <code>{formatPath(path)}</code>
                </td>
                <td>
                  <code>{code}</code>
                </td>
                <td>{message}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {eventId !== null && (
        <p>
          <a href={formatAddress(['find'], { id: eventId })}>Find {eventId}</a>{' '}
          <span class="muted">shows whether an event with this id is stored.</span>
        </p>
      )}
      {event !== undefined && <JsonText text={event} label="Formatted" />}
    </div>
  )
}
