import type { Issue, Rejected } from '../../api/bodies.ts'

/** What the server groups rejected events by. In the path, `*` stands in place of array indexes. */
export type GroupName = Pick<Issue, 'code' | 'path'>

/** Whether an issue of the event belongs to the group. */
export function isInGroup({ issues }: Rejected, { code, path }: GroupName): boolean {
  return issues.some((issue) => issue.code === code && generalPath(issue.path) === path)
}

/** As the server does it. */
function generalPath(path: string): string {
  return path.replaceAll(/\/(?:0|[1-9]\d*)(?=\/|$)/g, '/*')
}

export interface NamedRejection {
  /** Stays the same when newer events arrive. */
  name: string
  rejection: Rejected
}

/** Names events, newest first, also those that were sent twice within a millisecond. */
export function nameRejections(rejected: readonly Rejected[]): NamedRejection[] {
  const counts = new Map<string, number>()
  return rejected
    .toReversed()
    .map((rejection) => {
      const { receivedAt, index, eventId } = rejection
      const name = JSON.stringify([receivedAt, index, eventId])
      const count = counts.get(name) ?? 0
      counts.set(name, count + 1)
      return { name: `${name} ${count}`, rejection }
    })
    .toReversed()
}
