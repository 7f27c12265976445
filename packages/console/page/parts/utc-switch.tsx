import { browserTimeZone, isUtc, setUtc, useTimeZone } from '../time-zone.ts'

/** Shows all times in UTC, or in the time zone of the browser. */
export function UtcSwitch() {
  const zone = useTimeZone()
  // there is nothing to choose
  if (browserTimeZone() === 'UTC') return <span class="muted">UTC</span>
  return (
    <button type="button" aria-pressed={isUtc()} title={`Times are in ${zone}`} onClick={() => setUtc(!isUtc())}>
      UTC
    </button>
  )
}
