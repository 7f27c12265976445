import { IngestError } from '@ingest/core'

/** The routes of one path. */
export interface FoundPath<Route> {
  byMethod: ReadonlyMap<string, Route>
  /** The segments that stand for `{…}` in the path. */
  params: readonly string[]
}

/** Finds the routes of a path; a segment of a path such as `{projectId}` takes any value. */
export function indexRoutes<Route extends { method: string; path: string }>(
  routes: readonly Route[],
): (path: string) => FoundPath<Route> | undefined {
  const byPath = new Map<string, Map<string, Route>>()
  for (const route of routes) {
    byPath.set(route.path, (byPath.get(route.path) ?? new Map()).set(route.method, route))
  }
  const patterns = [...byPath]
    .filter(([path]) => path.includes('{'))
    .map(([path, byMethod]) => ({ pattern: new RegExp(`^${path.replaceAll(/{[^}]+}/g, '([^/]+)')}$`), byMethod }))
  return (path) => {
    const byMethod = byPath.get(path)
    if (byMethod) return { byMethod, params: [] }
    for (const { pattern, byMethod } of patterns) {
      const match = pattern.exec(path)
      if (match) return { byMethod, params: match.slice(1) }
    }
    return undefined
  }
}

/** HEAD is served by the route of GET. */
export function routeOf<Route>({ byMethod }: FoundPath<Route>, method: string): Route | undefined {
  return byMethod.get(method === 'HEAD' ? 'GET' : method)
}

/** The value of `Allow`. */
export function allowedMethods({ byMethod }: FoundPath<unknown>): string {
  return [...byMethod.keys()].flatMap((each) => (each === 'GET' ? ['GET', 'HEAD'] : [each])).join(', ')
}

export function notFound(): IngestError {
  return new IngestError('not-found', 'There is nothing at this path.')
}

export function methodNotAllowed(allowed: string): IngestError {
  return new IngestError('method-not-allowed', `This path takes ${allowed}.`)
}
