import type { Issue } from '../error.ts'
import { batchEventsMax } from '../events/batch.ts'
import { activityBodyBytesMax } from '../store-types.ts'
import { column, wordsPerEvent } from '../submit/batch-events.ts'
import type { Rejection } from '../submit/classify-events.ts'
import type { CountedBatch } from '../submit/submit-batch.ts'
import type { RejectionGroup, RejectionSample } from './activity.ts'

/** The events of one type or build. */
export interface NameCounts {
  accepted: number
  rejected: number
}

/** Rejected events of one cause. */
export type CauseCounts = Omit<RejectionGroup, 'counts' | 'keyName'>

/** The counts of a project in one minute or hour. Bounded, whatever clients send. */
export interface Counts {
  accepted: number
  duplicates: number
  rejected: number
  /** Events that are in none of the names or causes are in the totals alone. */
  types: Map<string, NameCounts>
  builds: Map<string, NameCounts>
  /** By the members that the events have in common. */
  causes: Map<string, CauseCounts>
  /** An estimate of the memory that samples have taken. */
  samplesBytes: number
}

/** The most names and causes in memory. Beyond, only the most frequent are kept: as many as a row has. */
const namesMax = 256
const causesMax = 64
export const namesKept = { types: 50, builds: 20 } as const
export const causesKept = 20
/** The most game servers of one cause. Beyond, the half with the fewest events is forgotten. */
const serverIdsMax = 8
export const samplesMax = 3
/** The longest path or message of an issue, in UTF-16 code units. */
const issueTextMax = 300
/** The largest text of a rejected event that is kept. */
const sampleTextBytesMax = 16_384
/** Beyond this size, counts get no further samples: more would not fit into a row. */
const samplesBytesMax = 2 * activityBodyBytesMax

/** Estimates of the bytes in memory; those of a sample and an issue are without their texts. */
const countsBytes = 1_000
const nameBytes = 300
const causeBytes = 2_000
const sampleBytes = 300
const issueBytes = 100

export function createCounts(): Counts {
  return {
    ...{ accepted: 0, duplicates: 0, rejected: 0 },
    ...{ types: new Map(), builds: new Map(), causes: new Map(), samplesBytes: 0 },
  }
}

/** An estimate of the memory that counts take. */
export function bytesOfCounts({ types, builds, causes, samplesBytes }: Counts): number {
  return countsBytes + nameBytes * (types.size + builds.size) + causeBytes * causes.size + samplesBytes
}

/** Adds the counts of another span. */
export function addCounts(counts: Counts, other: Counts): void {
  counts.accepted += other.accepted
  counts.duplicates += other.duplicates
  counts.rejected += other.rejected
  for (const named of ['types', 'builds'] as const) {
    for (const [name, added] of other[named]) addName(counts, named, name, added)
  }
  for (const [key, added] of other.causes) addCause(counts, key, added)
  counts.samplesBytes = 0
  for (const cause of counts.causes.values()) {
    const bytes = cause.samples.reduce((sum, sample) => sum + bytesOfSample(sample), 0)
    if (counts.samplesBytes + bytes > samplesBytesMax) cause.samples = []
    else counts.samplesBytes += bytes
  }
}

/** Adds the outcomes of a batch. */
export function countTotals(counts: Counts, { accepted, duplicates, rejections }: CountedBatch): void {
  counts.accepted += accepted
  counts.duplicates += duplicates
  counts.rejected += rejections.length
}

/** Adds the events of a batch to their types, builds and causes. */
export function countDetails(counts: Counts, batch: CountedBatch): void {
  if (batch.accepted > 0) {
    countStored(counts, 'types', batch)
    countStored(counts, 'builds', batch)
  }
  let newCauses = 0
  for (const rejection of batch.rejections) {
    countRejectedName(counts, 'types', rejection.type)
    countRejectedName(counts, 'builds', rejection.buildId)
    // a row keeps no more causes: a batch of hundred would only push out those of others
    if (countRejection(counts, batch, rejection, newCauses < causesKept)) newCauses++
  }
}

type Named = keyof typeof namesKept
const columns: Readonly<Record<Named, number>> = { types: column.type, builds: column.build }

/** The stored events by the number of their name plus one; index 0 counts those without a name. */
const countByNumber = new Uint32Array(batchEventsMax + 1)

function countStored(counts: Counts, named: Named, { events, stored }: CountedBatch): void {
  const names = events[named]
  let at = columns[named]
  for (let i = 0; i < stored.length; i++, at += wordsPerEvent) {
    // noName, the largest number, becomes 0
    if (stored[i]) (countByNumber[((events.rows[at] as number) + 1) >>> 0] as number)++
  }
  for (let i = 0; i < names.length; i++) {
    const accepted = countByNumber[i + 1] as number
    if (accepted > 0) addName(counts, named, names[i] as string, { accepted, rejected: 0 })
  }
  countByNumber.fill(0, 0, names.length + 1)
}

function countRejectedName(counts: Counts, named: Named, name: string | null): void {
  if (name !== null) addName(counts, named, name, { accepted: 0, rejected: 1 })
}

function addName(counts: Counts, named: Named, name: string, { accepted, rejected }: NameCounts): void {
  const found = counts[named].get(name)
  if (found) {
    found.accepted += accepted
    found.rejected += rejected
    return
  }
  if (counts[named].size >= namesMax) counts[named] = new Map(mostNames(counts[named]).slice(0, namesKept[named]))
  counts[named].set(name, { accepted, rejected })
}

/** The names, those with the most events first. */
export function mostNames<T extends NameCounts>(names: ReadonlyMap<string, T>): [string, T][] {
  return [...names].sort(([, a], [, b]) => b.accepted + b.rejected - a.accepted - a.rejected)
}

/** The causes, those with the most events first. */
export function mostCauses<T extends { count: number }>(causes: ReadonlyMap<string, T>): [string, T][] {
  return [...causes].sort(([, a], [, b]) => b.count - a.count)
}

/** Returns whether it has added a cause, which it does only if it `mayAdd`. */
function countRejection(
  counts: Counts,
  { receivedAt, keyId, body }: CountedBatch,
  { rejection: { eventId, issues }, type, buildId, serverId, start, end }: Rejection,
  mayAdd: boolean,
): boolean {
  const [issue = unknownIssue] = issues
  const event: CauseCounts = {
    code: issue.code,
    path: cut(issue.path).replaceAll(arrayIndex, '/*'),
    message: cut(issue.message),
    buildId,
    type,
    keyId,
    count: 1,
    serverIds: [{ serverId, count: 1 }],
    firstAt: receivedAt,
    lastAt: receivedAt,
    samples: [],
  }
  const key = keyOfCause(event)
  const known = counts.causes.get(key)
  if (!known && !mayAdd) return false
  if ((known?.samples.length ?? 0) < samplesMax && counts.samplesBytes < samplesBytesMax) {
    const sample: RejectionSample = { receivedAt, eventId, issues: issues.map(cutIssue) }
    if (body && end - start <= sampleTextBytesMax) sample.event = body.toString('utf8', start, end)
    event.samples.push(sample)
    counts.samplesBytes += bytesOfSample(sample)
  }
  addCause(counts, key, event)
  return known === undefined
}

/** Equal for rejections of the same cause. */
export function keyOfCause({ code, path, buildId, type, keyId }: CauseCounts): string {
  // the lengths make the key unambiguous for any text, and null different from the text 'null'
  return `${code} ${path.length} ${buildId?.length} ${type?.length} ${keyId?.length} ${path}${buildId}${type}${keyId}`
}

function addCause(counts: Counts, key: string, added: CauseCounts): void {
  const found = counts.causes.get(key)
  if (found) {
    addToCause(found, added)
    return
  }
  if (counts.causes.size >= causesMax) counts.causes = new Map(mostCauses(counts.causes).slice(0, causesKept))
  counts.causes.set(key, copyOfCause(added))
}

/** A copy that other events can be added to. */
export function copyOfCause(cause: CauseCounts): CauseCounts {
  const { code, path, message, buildId, type, keyId, count, firstAt, lastAt } = cause
  const serverIds = cause.serverIds.map(({ serverId, count }) => ({ serverId, count }))
  const samples = [...cause.samples]
  // no spread of objects: it costs more than the counts
  return { code, path, message, buildId, type, keyId, count, serverIds, firstAt, lastAt, samples }
}

/** Adds other events of the same cause. */
export function addToCause(
  cause: CauseCounts,
  { count, serverIds, firstAt, lastAt, samples, message }: CauseCounts,
): void {
  if (lastAt >= cause.lastAt) cause.message = message
  cause.count += count
  cause.firstAt = Math.min(cause.firstAt, firstAt)
  cause.lastAt = Math.max(cause.lastAt, lastAt)
  for (const { serverId, count } of serverIds) addServerId(cause, serverId, count)
  if (samples.length === 0) return
  cause.samples = [...cause.samples, ...samples].sort((a, b) => b.receivedAt - a.receivedAt).slice(0, samplesMax)
}

function addServerId(cause: CauseCounts, serverId: string | null, count: number): void {
  const known = cause.serverIds.find((each) => each.serverId === serverId)
  if (known) {
    known.count += count
    return
  }
  if (cause.serverIds.length >= serverIdsMax) cause.serverIds = sortedServerIds(cause).slice(0, serverIdsMax / 2)
  cause.serverIds.push({ serverId, count })
}

/** Those with the most events first. */
export function sortedServerIds({ serverIds }: Pick<CauseCounts, 'serverIds'>): CauseCounts['serverIds'] {
  return serverIds.toSorted((a, b) => b.count - a.count)
}

const unknownIssue: Issue = { code: 'not_allowed', path: '', message: '' }
const arrayIndex = /\/(?:0|[1-9]\d*)(?=\/|$)/g

function cutIssue({ code, path, message }: Issue): Issue {
  return { code, path: cut(path), message: cut(message) }
}

/** Copies what it cuts off, as V8 would keep the whole text for the slice. */
function cut(text: string): string {
  return text.length > issueTextMax
    ? Buffer.from(`${text.slice(0, issueTextMax)}…`, 'utf16le').toString('utf16le')
    : text
}

function bytesOfSample({ eventId, issues, event }: RejectionSample): number {
  const texts = issues.reduce((sum, { path, message }) => sum + issueBytes + 2 * (path.length + message.length), 0)
  return sampleBytes + texts + 2 * ((eventId?.length ?? 0) + (event?.length ?? 0))
}
