/** The choices in the address of the view; the view makes those that are undefined. */
export interface WhereAddress {
  buildId?: string | undefined
  /** '' for all places. */
  placeId?: string | undefined
  /** Empty for all types. */
  types: string[]
  /** JSON Pointers of the coordinates. */
  across?: string | undefined
  down?: string | undefined
}

export function parseWhere(query: URLSearchParams): WhereAddress {
  const get = (name: string) => query.get(name) ?? undefined
  return {
    buildId: get('build'),
    placeId: get('place'),
    types: query.getAll('type'),
    across: get('across'),
    down: get('down'),
  }
}

/** The inverse of `parseWhere`: the whole fragment. */
export function formatWhere({ buildId, placeId, types, across, down }: WhereAddress): string {
  const query = new URLSearchParams()
  const members = { build: buildId, place: placeId, across, down }
  for (const [name, value] of Object.entries(members)) if (value !== undefined) query.set(name, value)
  for (const type of types) query.append('type', type)
  return `#/where?${query}`
}
