/** The time since the start of a playback: `0:12.500`, `26:02:03.000`. */
export function formatElapsed(ms: number): string {
  const seconds = Math.floor(ms / 1000)
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60]
  const two = (value: number) => String(value).padStart(2, '0')
  const start = hours > 0 ? `${hours}:${two(minutes)}` : String(minutes)
  return `${start}:${two(seconds % 60)}.${String(Math.floor(ms % 1000)).padStart(3, '0')}`
}

/** The whole time between two events: `+0.25 s`, `+5:00.000`. */
export function formatPause(ms: number): string {
  return `+${ms < 60_000 ? `${ms / 1000} s` : formatElapsed(ms)}`
}
