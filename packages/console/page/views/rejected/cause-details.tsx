import { useState } from 'preact/hooks'
import { formatAddress } from '../../address.ts'
import type { RejectionGroup } from '../../api/bodies.ts'
import { formatCount, formatCountOf, formatShare } from '../../format.ts'
import { EventText } from '../../parts/event-detail.tsx'
import { IssueName } from '../../parts/issue-name.tsx'
import { Sparkline } from '../../parts/sparkline.tsx'
import { describeCounts, type Steps } from '../../parts/steps.ts'
import { Time } from '../../parts/time.tsx'
import { Value } from '../../parts/value.tsx'
import {
  type Cause,
  countSenders,
  missing,
  type Origin,
  origins,
  type Sample,
  type Sender,
  type SenderCount,
  samplesOf,
} from './causes.ts'

interface CauseDetailsProps {
  cause: Cause
  steps: Steps
  isOpen: boolean
  /** Called with whether the details are open now. */
  onToggle(isOpen: boolean): void
  /** The address with an origin added to the filter; null for events without a valid one. */
  linkTo(origin: Origin, id: string | null): string
}

const titles: Readonly<Record<Sender, string>> = { build: 'Build', type: 'Type', key: 'Key', server: 'Game server' }
const originNames = Object.keys(origins) as Origin[]
const sendersShownMax = 3

/** A cause with its count over time and its most frequent senders. When opened, shows all origins, and samples. */
export function CauseDetails({ cause, steps, isOpen, onToggle, linkTo }: CauseDetailsProps) {
  const { code, path, message, count, firstAt, lastAt, counts, groups } = cause
  return (
    <details open={isOpen} onToggle={({ currentTarget }) => currentTarget.open !== isOpen && onToggle(!isOpen)}>
      <summary>
        <strong class="number">{formatCount(count)}</strong>
        <span class="cause">
          <IssueName code={code} path={path} />
          <span class="message">
            <Value text={message} />
          </span>
          {(Object.keys(titles) as Sender[]).map((sender) => (
            <MostFrequent key={sender} cause={cause} sender={sender} />
          ))}
        </span>
        <Sparkline label={describeCounts('Rejected', steps, counts)} counts={counts} />
        <span class="when">
          <span>
            since <Time at={firstAt} />
            {(counts[0] ?? 0) > 0 && ' or before'}
          </span>
          <span>
            last <Time at={lastAt} />
          </span>
        </span>
      </summary>
      {isOpen && (
        <>
          <OriginTable groups={groups} steps={steps} linkTo={linkTo} />
          <SampleList samples={samplesOf(cause)} />
        </>
      )}
    </details>
  )
}

/** `Build 1.42.1 80 %, no valid build 20 %`. */
function MostFrequent({ cause, sender }: { cause: Cause; sender: Sender }) {
  const counted = countSenders(cause.groups, sender)
  const sumOf = (counts: readonly SenderCount[]) => counts.reduce((sum, { count }) => sum + count, 0)
  const isExact = sumOf(counted) === cause.count
  const most = counted.slice(0, sendersShownMax)
  const rest = cause.count - sumOf(most)
  return (
    <span class="senders">
      <span class="muted">{titles[sender]}</span>
      <span>
        {most.map(({ count, ...each }) => (
          <span key={each.id}>
            <SenderName sender={sender} {...each} />{' '}
            <span class="muted">
              {!isExact && 'at least '}
              {formatShare(count, cause.count)}
            </span>
          </span>
        ))}
        {rest > 0 && <span class="muted">others{isExact && ` ${formatShare(rest, cause.count)}`}</span>}
      </span>
    </span>
  )
}

function SenderName({ sender, id, name }: { sender: Sender } & Pick<SenderCount, 'id' | 'name'>) {
  if (id === null) return <>{missing[sender]}</>
  if (name === null) return <Value text={id} />
  return (
    <>
      <Value text={name} /> (<Value text={id} />)
    </>
  )
}

function OriginTable({
  groups,
  steps,
  linkTo,
}: Pick<CauseDetailsProps, 'steps' | 'linkTo'> & { groups: RejectionGroup[] }) {
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <th class="number">Events</th>
            {originNames.map((name) => (
              <th key={name}>{titles[name]}</th>
            ))}
            <th>Over time</th>
            <th>First</th>
            <th>Last</th>
          </tr>
        </thead>
        <tbody>
          {groups.map((group) => (
            <tr key={JSON.stringify(originNames.map((name) => group[origins[name]]))}>
              <td class="number">{formatCount(group.count)}</td>
              {originNames.map((name) => (
                <td key={name}>
                  {countSenders([group], name).map(({ count: _count, ...each }) => (
                    <a key={each.id} href={linkTo(name, each.id)} title="Show only these">
                      <SenderName sender={name} {...each} />
                    </a>
                  ))}
                </td>
              ))}
              <td>
                <Sparkline label={describeCounts('Rejected', steps, group.counts)} counts={group.counts} />
              </td>
              <td>
                <Time at={group.firstAt} />
              </td>
              <td>
                <Time at={group.lastAt} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function SampleList({ samples }: { samples: readonly Sample[] }) {
  return (
    <>
      <h3>{formatCountOf(samples.length, 'sample')}, newest first</h3>
      <ul class="samples">
        {samples.map((sample, index) => (
          <li key={index}>
            <SampleDetails sample={sample} />
          </li>
        ))}
      </ul>
      {samples.every(({ event }) => event === undefined) && (
        <p class="hint">
          The events themselves are not kept. <code>ingest serve --keep-rejected</code> keeps those of samples.
        </p>
      )}
    </>
  )
}

function SampleDetails({ sample: { receivedAt, eventId, issues, event } }: { sample: Sample }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <p class="line">
        <Time at={receivedAt} />
        {eventId === null ? (
          <span class="muted">no valid id</span>
        ) : (
          <a href={formatAddress(['find'], { id: eventId })}>
            <Value text={eventId} />
          </a>
        )}
        {event !== undefined && (
          <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {isOpen ? 'Hide' : 'Show'} the event
          </button>
        )}
      </p>
      <ul class="issues">
        {issues.map(({ code, path, message }) => (
          <li key={`${code} ${path} ${message}`}>
            <IssueName code={code} path={path} /> <Value text={message} />
          </li>
        ))}
      </ul>
      {isOpen && event !== undefined && <EventText text={event} />}
    </>
  )
}
