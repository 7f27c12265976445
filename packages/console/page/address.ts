/** The parsed fragment of the page's address: `#/p/game-1/maps/2026.11.20?place=1`. */
export interface Address {
  /** Undefined if the address names no project. */
  projectId: string | undefined
  /** The path segments after the project, decoded; the first is the view. */
  path: readonly string[]
  query: URLSearchParams
}

/** Never throws: an invalidly percent-encoded segment is kept unchanged. */
export function parseAddress(fragment: string): Address {
  const [path = '', query = ''] = split(fragment.replace(/^#?\/?/, ''), '?')
  const segments = path.split('/').filter(Boolean).map(decode)
  const projectId = segments[0] === projectSegment ? segments[1] : undefined
  return {
    projectId,
    path: projectId === undefined ? segments : segments.slice(2),
    query: new URLSearchParams(query),
  }
}

const projectSegment = 'p'

/**
 * The inverse of `parseAddress`, for links. Default of `projectId`: the project of the page's address. Undefined or
 * empty members are omitted.
 */
export function formatAddress(
  path: readonly string[],
  query: Readonly<Record<string, string | undefined>> = {},
  projectId = projectOfPage(),
): string {
  const members = Object.entries(query).filter((each): each is [string, string] => Boolean(each[1]))
  const search = new URLSearchParams(members).toString()
  const segments = projectId === undefined ? path : [projectSegment, projectId, ...path]
  return `#/${segments.map(encodeURIComponent).join('/')}${search && `?${search}`}`
}

// tests run without a page
function projectOfPage(): string | undefined {
  return parseAddress(globalThis.location?.hash ?? '').projectId
}

/** Adds a project to a fragment that names none. */
export function addProject(fragment: string, projectId: string): string {
  return `#/${projectSegment}/${encodeURIComponent(projectId)}/${fragment.replace(/^#?\/?/, '')}`
}

/** Replaces the fragment of the page's address, so that going back does not return to the old one. */
export function replaceAddress(fragment: string): void {
  if (fragment === location.hash) return
  history.replaceState(history.state, '', fragment)
  // replaceState dispatches no event
  dispatchEvent(new HashChangeEvent('hashchange'))
}

/** Changes to a query: undefined removes a member; a list becomes a repeated member. */
export type QueryChanges = Readonly<Record<string, string | readonly string[] | undefined>>

/**
 * Changes members of the query of the page's address, such as filters, so that a reload or a link shows the same view.
 * Adds no history entry: going back leaves the view.
 */
export function replaceQuery(changes: QueryChanges): void {
  replaceAddress(withQuery(changes))
}

/** Changes members of the query as `replaceQuery` does, but going back undoes it. */
export function pushQuery(changes: QueryChanges): void {
  location.hash = withQuery(changes)
}

function withQuery(changes: QueryChanges): string {
  const [path, query = ''] = split(location.hash, '?')
  const changed = changeQuery(query, changes)
  return (path || '#/') + (changed && `?${changed}`)
}

/** The query with these members changed; the others keep their order. */
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
