import { useState } from 'preact/hooks'
import { formatAddress } from '../../address.ts'
import type { RejectionGroup } from '../../api/bodies.ts'
import { formatCount } from '../../format.ts'
import { EventText } from '../../parts/event-detail.tsx'
import { IssueName } from '../../parts/issue-name.tsx'
import { Time } from '../../parts/time.tsx'
import { Value } from '../../parts/value.tsx'
import './rejected.css'

/** Causes by the number of events, most frequent first, each of which opens. */
export function RejectionGroups({ groups }: { groups: readonly RejectionGroup[] }) {
  return (
    <ul class="rejections">
      {groups.map((group) => (
        <li key={keyOf(group)}>
          <GroupDetails group={group} />
        </li>
      ))}
    </ul>
  )
}

function keyOf({ code, path, buildId, type, keyId, server }: RejectionGroup): string {
  return JSON.stringify([code, path, buildId, type, keyId, server])
}

function GroupDetails({ group }: { group: RejectionGroup }) {
  const { code, path, message, count, lastAt } = group
  const [isOpen, setOpen] = useState(false)
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        <strong class="number">{formatCount(count)}</strong>
        <span class="names">
          <span>
            <IssueName code={code} path={path} />
          </span>
          <span>
            <Value text={message} />
          </span>
          <span class="muted">
            <Value text={sourceOf(group)} />
          </span>
        </span>
        <span class="muted">
          last <Time at={lastAt} />
        </span>
      </summary>
      {isOpen && <Samples group={group} />}
    </details>
  )
}

function sourceOf({ buildId, type, keyId, server }: RejectionGroup): string {
  const named = { build: buildId, type, key: keyId, server }
  return Object.entries(named)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ')
}

function Samples({ group: { firstAt, samples } }: { group: RejectionGroup }) {
  return (
    <div class="rejection">
      <p>
        First <Time at={firstAt} />.
      </p>
      {samples.map(({ receivedAt, eventId, issues, event }) => (
        <section key={JSON.stringify([receivedAt, eventId])}>
          <p>
            <Time at={receivedAt} />{' '}
            {eventId === null ? (
              <span class="muted">no valid id</span>
            ) : (
              <a href={formatAddress(['find'], { id: eventId })}>
                Find <Value text={eventId} />
              </a>
            )}
          </p>
          <ul class="issues">
            {issues.map((issue) => (
              <li key={`${issue.code} ${issue.path} ${issue.message}`}>
                <IssueName code={issue.code} path={issue.path} /> <Value text={issue.message} />
              </li>
            ))}
          </ul>
          {event !== undefined && <EventText text={event} />}
        </section>
      ))}
    </div>
  )
}
