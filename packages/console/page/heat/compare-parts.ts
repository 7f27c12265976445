import { findParts, geometryNames, isPart, type Members, type Parts } from './parts.ts'

/** The parts of a map, with data that distinguishes them. */
export interface KnownParts extends Parts {
  /** The id, or else the name, or else the path of each part. Parts may share a key. */
  keys: readonly string[]
  /** The other members of each part, as JSON, without nested parts and lists of objects. */
  others: readonly string[]
}

export type ChangeKind = 'added' | 'removed' | 'moved' | 'changed'

/** A difference: the indexes of a part in both maps. */
export interface PartChange {
  kind: ChangeKind
  before?: number
  after?: number
}

/** Up to this many parts with the same key are paired by distance; more are paired in order. */
const pairedMax = 200

export function findKnownParts(map: unknown): KnownParts {
  const keys: string[] = []
  const others: string[] = []
  const parts = findParts(map, (members, path) => {
    keys.push(keyOf(members, path))
    others.push(othersOf(members))
  })
  return { ...parts, keys, others }
}

function keyOf(members: Members, path: string): string {
  const { id = members.ID ?? members.Id ?? members.uuid ?? members.guid, name = members.Name } = members
  if (isText(id)) return `id ${id}`
  return isText(name) ? String(name) : path
}

function isText(value: unknown): value is string | number {
  return typeof value === 'string' || typeof value === 'number'
}

function othersOf(members: Members): string {
  const entries = Object.entries(members).filter(([name]) => !geometryNames.has(name))
  if (entries.length === 0) return ''
  // no replacer unless it is needed: with one, this takes several times as long
  const isDeep = entries.some(([, value]) => isObject(value) && Object.values(value).some(isObject))
  return JSON.stringify(Object.fromEntries(entries), isDeep ? withoutParts : undefined)
}

/** Omits nested parts, which are compared separately. */
function withoutParts(name: string, value: unknown): unknown {
  const isParts = Array.isArray(value)
    ? value.some(isObject)
    : name !== '' && isObject(value) && isPart(value as Members)
  return isParts ? undefined : value
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

/**
 * The differences between the parts of two maps, in the order of the maps. Equal parts with the same key cancel out; of
 * the rest, the nearest are paired.
 */
export function compareParts(before: KnownParts, after: KnownParts): PartChange[] {
  const groups = groupByKey(before)
  const pairs = new Map<number, number>()
  for (const [key, news] of groupByKey(after)) {
    const olds = groups.get(key)
    if (olds) pairParts({ before, after, pairs }, olds, news)
  }
  const paired = new Set(pairs.values())
  const changes: PartChange[] = []
  for (let old = 0; old < before.length; old++) {
    const index = pairs.get(old)
    if (index === undefined) changes.push({ kind: 'removed', before: old })
    else if (!isSamePlace(before, old, after, index)) changes.push({ kind: 'moved', before: old, after: index })
    else if (!isSame(before, old, after, index)) changes.push({ kind: 'changed', before: old, after: index })
  }
  for (let index = 0; index < after.length; index++) {
    if (!paired.has(index)) changes.push({ kind: 'added', after: index })
  }
  return changes
}

function groupByKey({ keys }: KnownParts): Map<string, number[]> {
  const groups = new Map<string, number[]>()
  for (const [index, key] of keys.entries()) {
    const group = groups.get(key)
    if (group) group.push(index)
    else groups.set(key, [index])
  }
  return groups
}

interface Pairing {
  before: KnownParts
  after: KnownParts
  /** From indexes in the old map to indexes in the new one. */
  pairs: Map<number, number>
}

function pairParts(pairing: Pairing, olds: readonly number[], news: readonly number[]): void {
  const { before, after, pairs } = pairing
  const [old, index] = [olds[0], news[0]]
  if (olds.length === 1 && news.length === 1 && old !== undefined && index !== undefined) {
    pairs.set(old, index)
    return
  }
  const same = new Map<string, number[]>()
  for (const old of olds) {
    const text = textOf(before, old)
    const group = same.get(text)
    if (group) group.push(old)
    else same.set(text, [old])
  }
  const restNews = news.filter((index) => {
    const old = same.get(textOf(after, index))?.shift()
    if (old !== undefined) pairs.set(old, index)
    return old === undefined
  })
  pairNearest(
    pairing,
    olds.filter((old) => !pairs.has(old)),
    restNews,
  )
}

function pairNearest({ before, after, pairs }: Pairing, olds: readonly number[], news: readonly number[]): void {
  if (olds.length * news.length > pairedMax ** 2) {
    for (const [i, old] of olds.slice(0, news.length).entries()) pairs.set(old, news[i] as number)
    return
  }
  const distances = olds.flatMap((old) =>
    news.map((index) => ({ old, index, by: distance(before, old, after, index) })),
  )
  const taken = new Set<number>()
  for (const { old, index } of distances.sort((a, b) => a.by - b.by)) {
    if (pairs.has(old) || taken.has(index)) continue
    pairs.set(old, index)
    taken.add(index)
  }
}

function textOf({ centers, sizes, rotations, others }: KnownParts, index: number): string {
  const [from, to] = [3 * index, 3 * index + 3]
  return `${centers.subarray(from, to)} ${sizes.subarray(from, to)} ${rotations[index]} ${others[index]}`
}

function distance(a: Parts, i: number, b: Parts, j: number): number {
  let sum = 0
  for (let axis = 0; axis < 3; axis++) {
    // NaN for the third axis of a flat map
    const delta = (a.centers[3 * i + axis] as number) - (b.centers[3 * j + axis] as number) || 0
    sum += delta * delta
  }
  return sum
}

function isSamePlace(a: Parts, i: number, b: Parts, j: number): boolean {
  return isEqual(a.centers, 3 * i, b.centers, 3 * j, 3) && isEqual(a.rotations, i, b.rotations, j, 1)
}

function isSame(a: KnownParts, i: number, b: KnownParts, j: number): boolean {
  return isEqual(a.sizes, 3 * i, b.sizes, 3 * j, 3) && a.others[i] === b.others[j]
}

function isEqual(a: Float32Array, i: number, b: Float32Array, j: number, length: number): boolean {
  for (let at = 0; at < length; at++) if (!Object.is(a[i + at], b[j + at])) return false
  return true
}

/** The members in which two JSON objects differ, as texts of at most `charsMax` characters. */
export function differingMembers(before: string, after: string, charsMax: number): { before: string; after: string } {
  const [old, now] = [before, after].map((text) => JSON.parse(text || '{}') as Members) as [Members, Members]
  const names = [...new Set([...Object.keys(old), ...Object.keys(now)])]
  const differing = names.filter((name) => JSON.stringify(old[name]) !== JSON.stringify(now[name]))
  const describe = (members: Members) => {
    const present = differing.filter((name) => members[name] !== undefined)
    const text = present.map((name) => `${name}: ${JSON.stringify(members[name])}`).join(', ')
    return text.length > charsMax ? `${text.slice(0, charsMax)}…` : text
  }
  return { before: describe(old), after: describe(now) }
}
