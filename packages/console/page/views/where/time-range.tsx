import { formatCount, formatTime } from '../../format.ts'
import { Time } from '../../parts/time.tsx'

export interface TimeRangeProps {
  /** Of the events read, in milliseconds since 1970. */
  from: number
  to: number
  /** Events in equal spans between. */
  timeline: readonly number[]
  /** The selected time; undefined at an end that moves with the events. */
  chosen: TimeChoice
  onChoose(chosen: TimeChoice): void
}

export interface TimeChoice {
  from?: number | undefined
  to?: number | undefined
}

/** The start and the end of the shown time, below bars of the events by time. */
export function TimeRange({ from, to, timeline, chosen, onChoose }: TimeRangeProps) {
  const low = chosen.from ?? from
  const high = chosen.to ?? to
  const most = Math.max(1, ...timeline)
  const width = (to - from) / timeline.length
  return (
    <fieldset class="time-range">
      <legend class="muted">Received</legend>
      <div class="timeline" aria-hidden="true">
        {timeline.map((count, i) => {
          const start = from + i * width
          const isChosen = start + width >= low && start <= high
          return (
            <span
              key={start}
              class={isChosen ? 'chosen' : ''}
              title={formatCount(count)}
              style={{ height: `${count === 0 ? 0 : Math.max(4, (100 * count) / most)}%` }}
            />
          )
        })}
      </div>
      <Handle
        name="From"
        {...{ from, to, value: low }}
        onMove={(at) => onChoose({ ...chosen, from: at <= from ? undefined : Math.min(at, high) })}
      />
      <Handle
        name="To"
        {...{ from, to, value: high }}
        onMove={(at) => onChoose({ ...chosen, to: at >= to ? undefined : Math.max(at, low) })}
      />
      <p class="ends">
        <Time at={low} /> to <Time at={high} />
      </p>
    </fieldset>
  )
}

interface HandleProps {
  name: string
  from: number
  to: number
  value: number
  onMove(at: number): void
}

function Handle({ name, from, to, value, onMove }: HandleProps) {
  return (
    <label>
      {name}
      <input
        type="range"
        aria-valuetext={formatTime(value)}
        min={from}
        max={to}
        step={Math.max(1, Math.floor((to - from) / 400))}
        value={value}
        disabled={to === from}
        onInput={(event) => onMove(Number(event.currentTarget.value))}
      />
    </label>
  )
}
