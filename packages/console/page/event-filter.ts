/** The members by which `GET /v1/events` filters, by their names in addresses. */
export const filterMembers = {
  type: 'type',
  build: 'buildId',
  player: 'playerId',
  session: 'sessionId',
  place: 'placeId',
  server: 'serverId',
} as const

export type FilterName = keyof typeof filterMembers
export const filterNames = Object.keys(filterMembers) as FilterName[]

/** Selects the events in which each named member has this value. */
export type EventFilter = Readonly<Partial<Record<FilterName, string>>>

/** The filter in an address: `type=shot&player=7`. */
export function parseEventFilter(query: URLSearchParams): EventFilter {
  const filter: Partial<Record<FilterName, string>> = {}
  for (const name of filterNames) {
    const value = query.get(name)
    if (value) filter[name] = value
  }
  return filter
}

/** The filter as parameters of `GET /v1/events`. */
export type FilterQuery = { readonly [Name in FilterName as (typeof filterMembers)[Name]]?: string | undefined }

export function filterQuery(filter: EventFilter): FilterQuery {
  return Object.fromEntries(filterNames.map((name) => [filterMembers[name], filter[name]]))
}

/** The filter value of a member's value; undefined if the server cannot filter by it. */
export function filterValue(value: unknown): string | undefined {
  if (typeof value === 'string') return value || undefined
  return Number.isSafeInteger(value) ? String(value) : undefined
}
