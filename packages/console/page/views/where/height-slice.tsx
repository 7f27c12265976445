import { useState } from 'preact/hooks'
import { formatCountOf } from '../../format.ts'
import type { Selection } from '../../heat/heat-events.ts'
import { axisOf } from '../../heat/pairs.ts'
import { Value } from '../../parts/value.tsx'
import type { CallWorker } from '../../worker/call-worker.ts'
import type { SampleAsk } from '../../worker/samples.ts'
import type { PointerChoice } from './filters.tsx'
import { formatBounds, formatUnits, nameOf } from './format-units.ts'
import { useLatest } from './use-latest.ts'
import type { WhereAddress } from './where-address.ts'

/** The member of the third coordinate of a pair: `/position/y` for x and z. */
export function heightOf({ across, down }: PointerChoice, pointers: readonly string[]): string | undefined {
  const axes = [axisOf(across), axisOf(down)]
  const parent = across.slice(0, across.lastIndexOf('/'))
  return pointers.find((pointer) => {
    const axis = axisOf(pointer)
    return axis !== undefined && !axes.includes(axis) && pointer.slice(0, pointer.lastIndexOf('/')) === parent
  })
}

export interface HeightSliceProps {
  call: CallWorker
  ask: SampleAsk
  selection: Selection
  /** Number of events read so far. */
  events: number
  pointer: string
  chosen: WhereAddress['heights']
  onChoose(heights: WhereAddress['heights']): void
}

const steps = 200

/** Chooses the range of heights of the shown events, below a histogram of all heights, in which floors are visible. */
export function HeightSlice({ call, ask, selection, events, pointer, chosen, onChoose }: HeightSliceProps) {
  const { across, down, placeId, types } = selection
  const found = useLatest(
    async () => ({
      heights: await call('whereHeights', { ask, selection: { ...selection, slice: undefined }, pointer }),
    }),
    [ask, across, down, placeId, types, events, pointer],
  )
  // set while a handle moves
  const [moved, setMoved] = useState<WhereAddress['heights']>()
  if (!found?.heights) return null
  const { min, max, counts } = found.heights
  if (min === max) return null
  const { min: low, max: high } = moved ?? chosen ?? { min, max }
  const most = Math.max(...counts)
  const width = (max - min) / counts.length
  const name = nameOf(pointer)

  function move(next: { min: number; max: number }): void {
    setMoved(undefined)
    const isAll = next.min <= min && next.max >= max
    onChoose(isAll ? undefined : next)
  }
  const handle = (which: 'min' | 'max', value: number, bounded: (value: number) => object) => (
    <label>
      {which === 'min' ? 'From' : 'To'}
      <input
        type="range"
        aria-label={`${which === 'min' ? 'Least' : 'Greatest'} ${name}`}
        aria-valuetext={formatUnits(value)}
        min={min}
        max={max}
        step="any"
        value={value}
        onKeyDown={(event) => {
          const by = stepOf(event.key)
          if (by === undefined) return
          event.preventDefault()
          move({ min: low, max: high, ...bounded(value + (by * (max - min)) / steps) })
        }}
        onInput={({ currentTarget }) => setMoved({ min: low, max: high, ...bounded(Number(currentTarget.value)) })}
        onChange={({ currentTarget }) => move({ min: low, max: high, ...bounded(Number(currentTarget.value)) })}
      />
    </label>
  )
  return (
    <fieldset class="heights">
      <legend class="muted">
        Height (<Value text={name} />
        ): {formatBounds(low, high)}
      </legend>
      <div class="histogram" aria-hidden="true">
        {counts.map((count, i) => {
          const start = min + i * width
          const isShown = start + width >= low && start <= high
          return (
            <span
              key={start}
              class={isShown ? 'chosen' : ''}
              title={`${formatBounds(start, start + width)}: ${formatCountOf(count, 'event')}`}
              style={{ height: `${count === 0 ? 0 : Math.max(4, (100 * count) / most)}%` }}
            />
          )
        })}
      </div>
      {handle('min', low, (value) => ({ min: Math.max(min, Math.min(value, high)) }))}
      {handle('max', high, (value) => ({ max: Math.min(max, Math.max(value, low)) }))}
      {chosen && (
        <button type="button" onClick={() => onChoose(undefined)}>
          All heights
        </button>
      )}
    </fieldset>
  )
}

function stepOf(key: string): number | undefined {
  const byKey: Record<string, number> = {
    ArrowRight: 1,
    ArrowUp: 1,
    ArrowLeft: -1,
    ArrowDown: -1,
    PageUp: steps / 10,
    PageDown: -steps / 10,
    Home: -steps,
    End: steps,
  }
  return byKey[key]
}
