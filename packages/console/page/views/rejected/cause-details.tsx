import { useState } from 'preact/hooks'
import { formatAddress } from '../../address.ts'
import type { RejectionGroup } from '../../api/bodies.ts'
import { formatCount, formatCountOf } from '../../format.ts'
import { EventText } from '../../parts/event-detail.tsx'
import { IssueName } from '../../parts/issue-name.tsx'
import { Sparkline } from '../../parts/sparkline.tsx'
import { describeCounts, type Steps } from '../../parts/steps.ts'
import { Time } from '../../parts/time.tsx'
import { Value } from '../../parts/value.tsx'
import { type Cause, type Origin, origins, type Sample, samplesOf } from './causes.ts'

interface CauseDetailsProps {
  cause: Cause
  steps: Steps
  isOpen: boolean
  /** Called with whether the details are open now. */
  onToggle(isOpen: boolean): void
  /** The address with an origin added to the filter. */
  linkTo(origin: Origin, value: string): string
}

const titles: Readonly<Record<Origin, string>> = { build: 'Build', type: 'Type', key: 'Key' }
const plurals: Readonly<Record<Origin, string>> = { build: 'builds', type: 'types', key: 'keys' }

/** A cause with its count over time. When opened, shows the origins of the events and samples of them. */
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
          <span class="muted">{summarizeOrigins(groups)}</span>
        </span>
        <Sparkline label={describeCounts('Rejected', steps, counts)} counts={counts} />
        <span class="when">
          <Time at={firstAt} /> – <Time at={lastAt} />
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

/** `build 1.42.1, 3 types, key k_1, 2 servers`. */
function summarizeOrigins(groups: readonly RejectionGroup[]): string {
  const names = Object.keys(origins) as Origin[]
  return names
    .map((name) => {
      const count = new Set(groups.map((group) => group[origins[name]])).size
      return count === 1 ? `1 ${name}` : `${formatCount(count)} ${plurals[name]}`
    })
    .join(', ')
}

function OriginTable({
  groups,
  steps,
  linkTo,
}: Pick<CauseDetailsProps, 'steps' | 'linkTo'> & { groups: RejectionGroup[] }) {
  const names = Object.keys(origins) as Origin[]
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <th class="number">Events</th>
            {names.map((name) => (
              <th key={name}>{titles[name]}</th>
            ))}
            <th>Over time</th>
            <th>First</th>
            <th>Last</th>
          </tr>
        </thead>
        <tbody>
          {groups.map((group) => (
            <tr key={JSON.stringify(names.map((name) => group[origins[name]]))}>
              <td class="number">{formatCount(group.count)}</td>
              {names.map((name) => (
                <td key={name}>
                  <OriginLink value={group[origins[name]]} href={(value) => linkTo(name, value)} />
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

function OriginLink({ value, href }: { value: string | null; href(value: string): string }) {
  if (value === null) return <span class="muted">none</span>
  return (
    <a href={href(value)} title="Show only these">
      <Value text={value} />
    </a>
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
