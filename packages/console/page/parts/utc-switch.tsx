import { browserTimeZone, isUtc, setUtc, useTimeZone } from '../time-zone.ts'

/** Switches all times between UTC and the browser's time zone. */
export function UtcSwitch() {
  const zone = useTimeZone()
  // no choice is needed
  if (browserTimeZone() === 'UTC') return <span class="muted">UTC</span>
  return (
    <button type="button" aria-pressed={isUtc()} title={`Times are in ${zone}`} onClick={() => setUtc(!isUtc())}>
      UTC
    </button>
  )
}
