import type { RecentRejection } from '../../api/bodies.ts'

/** The key of a group of rejected events. In the path, `*` stands in place of array indexes. */
export type GroupName = { code: string; path: string }

/** Whether an issue of the event belongs to the group. */
export function isInGroup({ issues }: RecentRejection, { code, path }: GroupName): boolean {
  return issues.some((issue) => issue.code === code && generalPath(issue.path) === path)
}

/** As the server does it. */
function generalPath(path: string): string {
  return path.replaceAll(/\/(?:0|[1-9]\d*)(?=\/|$)/g, '/*')
}

export interface KeyedRejection {
  /** Stays the same when newer events arrive. */
  key: string
  rejection: RecentRejection
}

/** Gives each event, newest first, a key of its own, also those that were sent twice within a millisecond. */
export function keyRejections(rejected: readonly RecentRejection[]): KeyedRejection[] {
  const counts = new Map<string, number>()
  return rejected
    .toReversed()
    .map((rejection) => {
      const { receivedAt, index, eventId } = rejection
      const content = JSON.stringify([receivedAt, index, eventId])
      const count = counts.get(content) ?? 0
      counts.set(content, count + 1)
      return { key: `${content} ${count}`, rejection }
    })
    .toReversed()
}
