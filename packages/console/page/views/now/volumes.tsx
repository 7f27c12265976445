import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { Activity } from '../../api/bodies.ts'
import { formatCount, formatHour, formatMinute, formatShare } from '../../format.ts'
import { Sparkline } from '../../parts/sparkline.tsx'
import { describeCounts } from '../../parts/steps.ts'
import { Time } from '../../parts/time.tsx'
import { Value } from '../../parts/value.tsx'
import { acceptedOf } from './load-activity.ts'
import { busyCountsOf, type Trend, trendOf } from './trend.ts'

export type Volume = NonNullable<Activity['groups']>[number]

const trendTitles = { new: 'new', stopped: 'stopped arriving' } as const
const shownAtFirst = 15

interface VolumeTableProps {
  activity: Activity
  volumes: readonly Volume[]
  /** The earlier activity to compare accepted events with. */
  before: { name: string; activity: Activity } | undefined
  /** The heading of the first column, such as `Type`. */
  what: string
  /** The name of the row for the rest. */
  rest: string
  /** The address that a row links to. */
  linkTo(name: string): string
  /** The trends that rows may show. */
  trends: readonly Trend[]
  /** An additional cell at the end of each row. */
  choice?: ((volume: Volume) => ComponentChildren) | undefined
}

/** Events by type or build in the range. */
export function VolumeTable({ volumes, what, ...row }: VolumeTableProps) {
  const [isWhole, setWhole] = useState(false)
  const shown = isWhole ? volumes : volumes.slice(0, shownAtFirst)
  return (
    <>
      <div class="scroll">
        <table class="volumes cards">
          <thead>
            <tr>
              <th>{what}</th>
              <th class="number">Accepted</th>
              <th class="number">Rejected</th>
              <th>Over time</th>
              <th>First</th>
              <th>Last</th>
              {row.choice && <th>Compare</th>}
            </tr>
          </thead>
          <tbody>
            {shown.map((volume) => (
              <VolumeRow key={JSON.stringify(volume.name)} volume={volume} {...row} />
            ))}
          </tbody>
        </table>
      </div>
      {volumes.length > shown.length && (
        <button type="button" onClick={() => setWhole(true)}>
          Show all {formatCount(volumes.length)}
        </button>
      )}
    </>
  )
}

function VolumeRow({
  volume,
  activity,
  before,
  rest,
  linkTo,
  choice,
  trends,
}: Omit<VolumeTableProps, 'what' | 'volumes'> & { volume: Volume }) {
  const { name, accepted, rejected, firstAt, lastAt, counts } = volume
  const trend = name === null ? undefined : trends.find((each) => each === trendOf(busyCountsOf(activity, counts)))
  const acceptedBefore = before && name !== null ? acceptedOf(before.activity, name) : undefined
  // the times of hourly steps are whole hours, those of shorter steps whole minutes
  const format = activity.stepSeconds < 3_600 ? formatMinute : formatHour
  return (
    <tr>
      <td class="name">
        {name === null ? (
          <span class="muted">{rest}</span>
        ) : (
          <a href={linkTo(name)}>
            <Value text={name} />
          </a>
        )}{' '}
        {trend && <strong class={`trend ${trend}`}>{trendTitles[trend]}</strong>}
      </td>
      <td class="number" data-label="Accepted">
        {formatCount(accepted)}{' '}
        {acceptedBefore !== undefined && (
          <small>
            {formatCount(acceptedBefore)} a {before?.name} before
          </small>
        )}
      </td>
      <td class="number" data-label="Rejected">
        {formatCount(rejected)}{' '}
        {rejected > 0 && <span class="muted">{formatShare(rejected, accepted + rejected)}</span>}
      </td>
      <td data-label="Over time">
        <Sparkline label={describeCounts('Accepted', activity, counts)} counts={counts} />
      </td>
      <td data-label="First">
        <Time at={firstAt} format={format} />
      </td>
      <td data-label="Last">
        <Time at={lastAt} format={format} />
      </td>
      {choice && <td data-label="Compare">{choice(volume)}</td>}
    </tr>
  )
}
