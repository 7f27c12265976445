/** A time in milliseconds since 1970 as RFC 3339, as `--json` and tables have it; null for none. */
export function formatTime(at: number): string
export function formatTime(at: number | null | undefined): string | null
export function formatTime(at: number | null | undefined): string | null {
  return at === null || at === undefined ? null : new Date(at).toISOString()
}
