/** The parsed fragment of the page's address: `#/maps/2026.11.20?place=1`. */
export interface Address {
  /** The segments of the path, decoded; the first is the view. */
  path: readonly string[]
  query: URLSearchParams
}

/** Never throws: a segment that is not percent-encoded as it should be is kept as it is. */
export function parseAddress(fragment: string): Address {
  const [path = '', query = ''] = split(fragment.replace(/^#?\/?/, ''), '?')
  return { path: path.split('/').filter(Boolean).map(decode), query: new URLSearchParams(query) }
}

/** The inverse of `parseAddress`, for links. Members that are undefined or empty are left out. */
export function formatAddress(
  path: readonly string[],
  query: Readonly<Record<string, string | undefined>> = {},
): string {
  const members = Object.entries(query).filter((each): each is [string, string] => Boolean(each[1]))
  const search = new URLSearchParams(members).toString()
  return `#/${path.map(encodeURIComponent).join('/')}${search && `?${search}`}`
}

/** Values of a query; those that are undefined are removed. A list is a member that repeats. */
export type QueryChanges = Readonly<Record<string, string | readonly string[] | undefined>>

/**
 * Changes members of the query of the page's address, such as filters: a reload and a link show the same, and going back
 * leaves the view.
 */
export function replaceQuery(changes: QueryChanges): void {
  const [path, query = ''] = split(location.hash, '?')
  const changed = changeQuery(query, changes)
  const hash = (path || '#/') + (changed && `?${changed}`)
  if (hash === location.hash) return
  history.replaceState(history.state, '', hash)
  // replaceState tells nobody
  dispatchEvent(new HashChangeEvent('hashchange'))
}

/** The text of a query with these members changed; the others keep their order. */
export function changeQuery(query: string, changes: QueryChanges): string {
  const members = new URLSearchParams(query)
  for (const [name, value] of Object.entries(changes)) {
    members.delete(name)
    for (const each of typeof value === 'string' ? [value] : (value ?? [])) members.append(name, each)
  }
  return members.toString()
}

function split(text: string, separator: string): [string, string?] {
  const at = text.indexOf(separator)
  return at === -1 ? [text] : [text.slice(0, at), text.slice(at + 1)]
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}
