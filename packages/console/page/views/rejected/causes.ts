import type { RejectionGroup } from '../../api/bodies.ts'

export type Sample = RejectionGroup['samples'][number]

/** Members that identify the origin of rejected events, by their names in the address. */
export const origins = { build: 'buildId', type: 'type', key: 'keyId' } as const
export type Origin = keyof typeof origins

/** An origin, or the game server, which groups count but are not split by. */
export type Sender = Origin | 'server'

/** Shown instead of a missing id. */
export const missing: Readonly<Record<Sender, string>> = {
  build: 'no valid build',
  type: 'no valid type',
  key: 'no key',
  server: 'no valid serverId',
}

/** The number of events of a cause from one build, type, key or game server. */
export interface SenderCount {
  /** Null for events without a valid one. */
  id: string | null
  /** The name of a key. */
  name: string | null
  count: number
}

/** Most frequent first. Game servers are not complete: the counts of their ids may be lower bounds. */
export function countSenders(groups: readonly RejectionGroup[], sender: Sender): SenderCount[] {
  const counts = new Map<string | null, SenderCount>()
  for (const group of groups) {
    for (const { id, name, count } of sendersOf(group, sender)) {
      const known = counts.get(id)
      if (known) known.count += count
      else counts.set(id, { id, name, count })
    }
  }
  return [...counts.values()].sort((a, b) => b.count - a.count)
}

function sendersOf(group: RejectionGroup, sender: Sender): SenderCount[] {
  if (sender === 'server') return group.serverIds.map(({ serverId: id, count }) => ({ id, name: null, count }))
  return [{ id: group[origins[sender]], name: sender === 'key' ? group.keyName : null, count: group.count }]
}

/** A cause: groups with the same issue. */
export interface Cause extends Pick<RejectionGroup, 'code' | 'path' | 'message' | 'count' | 'firstAt' | 'lastAt'> {
  /** Rejected events in each step. */
  counts: number[]
  /** Most frequent first. */
  groups: RejectionGroup[]
}

const samplesMax = 10

/** The groups whose origin matches the address, in which '' stands for events without a valid one. */
export function filterGroups(groups: readonly RejectionGroup[], query: URLSearchParams): RejectionGroup[] {
  return groups.filter((group) =>
    Object.entries(origins).every(([name, member]) => {
      const wanted = query.get(name)
      return wanted === null || (group[member] ?? '') === wanted
    }),
  )
}

/** Merges groups by their issue, most frequent first. */
export function mergeCauses(groups: readonly RejectionGroup[]): Cause[] {
  const causes = new Map<string, Cause>()
  for (const group of groups) {
    const { code, path, message, count, firstAt, lastAt, counts } = group
    const name = JSON.stringify([code, path])
    const cause = causes.get(name)
    if (!cause) {
      causes.set(name, { code, path, message, count, firstAt, lastAt, counts: [...counts], groups: [group] })
      continue
    }
    cause.count += count
    // RFC 3339 times in UTC compare as text
    if (firstAt < cause.firstAt) cause.firstAt = firstAt
    if (lastAt > cause.lastAt) Object.assign(cause, { lastAt, message })
    for (const [index, each] of counts.entries()) cause.counts[index] = (cause.counts[index] ?? 0) + each
    cause.groups.push(group)
  }
  for (const cause of causes.values()) cause.groups.sort((a, b) => b.count - a.count)
  return [...causes.values()].sort((a, b) => b.count - a.count)
}

/** The newest samples of a cause. */
export function samplesOf({ groups }: Cause): Sample[] {
  return groups
    .flatMap(({ samples }) => samples)
    .sort((a, b) => (a.receivedAt < b.receivedAt ? 1 : -1))
    .slice(0, samplesMax)
}

/** One line of JSON for each group. */
export function toNdjson(groups: readonly RejectionGroup[]): string {
  return groups.map((group) => `${JSON.stringify(group)}\n`).join('')
}
