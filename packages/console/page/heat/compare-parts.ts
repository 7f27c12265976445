import { findParts, type Members } from './parts.ts'

/** The parts of a map by their id, or else their name, or else their path; several may have the same. */
export interface PartKeys {
  length: number
  /** Whether the map has more parts than were read. */
  isCut: boolean
  counts: ReadonlyMap<string, number>
}

export function keysOfParts(map: unknown): PartKeys {
  const counts = new Map<string, number>()
  const { length, isCut } = findParts(map, (members, path) => {
    const key = keyOf(members, path)
    counts.set(key, (counts.get(key) ?? 0) + 1)
  })
  return { length, isCut, counts }
}

/** How many parts of `to` are not in `from`. */
export function countAdded(from: PartKeys, to: PartKeys): number {
  let added = 0
  for (const [key, count] of to.counts) added += Math.max(0, count - (from.counts.get(key) ?? 0))
  return added
}

function keyOf(members: Members, path: string): string {
  const { id = members.ID ?? members.Id ?? members.uuid ?? members.guid, name = members.Name } = members
  if (isText(id)) return `id ${id}`
  return isText(name) ? `name ${name}` : path
}

function isText(value: unknown): value is string | number {
  return typeof value === 'string' || typeof value === 'number'
}
