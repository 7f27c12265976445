import { formatTime } from '../format.ts'
import { useTimeZone } from '../time-zone.ts'

/** A time of the server in the page's time zone; its title has the exact time. */
export function Time({ at, format = formatTime }: { at: number | string; format?: (ms: number) => string }) {
  useTimeZone()
  const ms = typeof at === 'number' ? at : Date.parse(at)
  const iso = new Date(ms).toISOString()
  return (
    <time dateTime={iso} title={iso}>
      {format(ms)}
    </time>
  )
}
