/** Milliseconds since 1970 as answers say them: in RFC 3339, in UTC. */
export function timeOf(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString()
}
