import type { Issue } from '../error.ts'
import { batchEventsMax } from '../events/batch.ts'
import { column, wordsPerEvent } from '../events/batch-events.ts'
import type { Rejection } from '../events/classify-events.ts'
import type { CountedBatch } from '../events/submit-batch.ts'
import type { RejectionGroup, RejectionSample } from './activity.ts'

/** The events of one type or build. */
export interface NameCounts {
  accepted: number
  rejected: number
}

/** Rejected events of one cause. */
export type RejectionCounts = Omit<RejectionGroup, 'counts' | 'keyName'>

/** The counts of a project in one span of time. Bounded, whatever clients send. */
export interface Counts {
  accepted: number
  duplicates: number
  rejected: number
  types: Map<string | null, NameCounts>
  builds: Map<string | null, NameCounts>
  /** By the members that the events have in common. */
  rejections: Map<string, RejectionCounts>
  /** An estimate of the memory they take. */
  bytes: number
}

/** The most names and causes of one span in memory. Beyond, all but the most frequent are counted together. */
const namesMax = 256
const causesMax = 64
/** The number of names that a row keeps. */
export const namesKept = { types: 50, builds: 20 } as const
export const causesKept = 20
/** The most game servers of one cause. Beyond, the half with the fewest events is forgotten. */
const serverIdsMax = 8
export const samplesMax = 3
/** The longest path or message of an issue, in UTF-16 code units. */
const issueTextMax = 300
/** The largest text of a rejected event that is kept. */
export const sampleTextBytesMax = 16_384
/** Beyond this size, a span gets no further samples. Its names take at most two thirds of it. */
const countsBytesMax = 393_216

/** Estimates of the bytes that an empty span, a name, a cause, a sample and an issue take, without their texts. */
const countsBytes = 1_000
const nameBytes = 100
const causeBytes = 400
const sampleBytes = 300
const issueBytes = 100

export function createCounts(): Counts {
  return {
    accepted: 0,
    duplicates: 0,
    rejected: 0,
    types: new Map(),
    builds: new Map(),
    rejections: new Map(),
    bytes: countsBytes,
  }
}

/** Adds a batch: with `inDetail` by name and cause, otherwise only to the totals, like events without a name. */
export function countBatch(counts: Counts, batch: CountedBatch, { inDetail }: { inDetail: boolean }): void {
  const { accepted, duplicates, events, rejections, texts } = batch
  counts.accepted += accepted
  counts.duplicates += duplicates
  counts.rejected += rejections.length
  if (!inDetail) {
    for (const named of ['types', 'builds'] as const) addName(counts, named, null, accepted, rejections.length)
    return
  }
  if (accepted > 0) {
    countStored(counts, 'types', batch, events.types)
    countStored(counts, 'builds', batch, events.builds)
  }
  let newCauses = 0
  for (let i = 0; i < rejections.length; i++) {
    const rejection = rejections[i] as Rejection
    addName(counts, 'types', rejection.type, 0, 1)
    addName(counts, 'builds', rejection.buildId, 0, 1)
    // a row keeps no more causes: a batch of hundred would only push out those of others
    if (countRejection(counts, batch, rejection, texts[i], newCauses < causesKept)) newCauses++
  }
}

type Named = keyof typeof namesKept
const columns: Readonly<Record<Named, number>> = { types: column.type, builds: column.build }

/** The stored events by the number of their name plus one; index 0 counts those without a name. */
const countByNumber = new Uint32Array(batchEventsMax + 1)

function countStored(counts: Counts, named: Named, { events, stored }: CountedBatch, names: readonly string[]): void {
  const { rows } = events
  let at = columns[named]
  for (let i = 0; i < stored.length; i++, at += wordsPerEvent) {
    // noName, the largest number, becomes 0
    if (stored[i]) (countByNumber[((rows[at] as number) + 1) >>> 0] as number)++
  }
  for (let number = 0; number <= names.length; number++) {
    const count = countByNumber[number] as number
    if (count > 0) addName(counts, named, names[number - 1] ?? null, count, 0)
    countByNumber[number] = 0
  }
}

function addName(counts: Counts, named: Named, name: string | null, accepted: number, rejected: number): void {
  const found = counts[named].get(name)
  if (found) {
    found.accepted += accepted
    found.rejected += rejected
    return
  }
  if (counts[named].size >= namesMax) keepMostNames(counts, named)
  counts[named].set(name, { accepted, rejected })
  counts.bytes += bytesOfName(name)
}

function keepMostNames(counts: Counts, named: Named): void {
  const { kept, rest } = mostNames(counts[named], namesKept[named])
  for (const name of counts[named].keys()) counts.bytes -= bytesOfName(name)
  counts[named] = new Map<string | null, NameCounts>(kept).set(null, rest)
  for (const name of counts[named].keys()) counts.bytes += bytesOfName(name)
}

function bytesOfName(name: string | null): number {
  return nameBytes + 2 * (name?.length ?? 0)
}

/** The names with the most events, in descending order, and the sum of the others. */
export function mostNames<T extends NameCounts>(
  names: ReadonlyMap<string | null, T>,
  most: number,
): { kept: [string, T][]; rest: NameCounts } {
  const rest = { accepted: 0, rejected: 0 }
  const named: [string, T][] = []
  for (const [name, counts] of names) {
    if (name === null) addNames(rest, counts)
    else named.push([name, counts])
  }
  named.sort(([, a], [, b]) => b.accepted + b.rejected - a.accepted - a.rejected)
  for (const [, counts] of named.slice(most)) addNames(rest, counts)
  return { kept: named.slice(0, most), rest }
}

function addNames(sum: NameCounts, { accepted, rejected }: NameCounts): void {
  sum.accepted += accepted
  sum.rejected += rejected
}

/** Returns whether it has added a cause, which it does only if it `mayAdd`. */
function countRejection(
  counts: Counts,
  { receivedAt, keyId }: CountedBatch,
  { rejection: { eventId, issues }, type, buildId, serverId }: Rejection,
  text: Uint8Array | undefined,
  mayAdd: boolean,
): boolean {
  const [issue = unknownIssue] = issues
  const { code } = issue
  const path = cut(issue.path).replaceAll(arrayIndex, '/*')
  const message = cut(issue.message)
  // the lengths keep apart what any text may contain, and null from the text null
  const cause = `${code} ${path.length} ${buildId?.length} ${type?.length} ${keyId?.length} ${path}${buildId}${type}${keyId}`
  const known = counts.rejections.get(cause)
  if (!known && !mayAdd) return false
  const event = { count: 1, firstAt: receivedAt, lastAt: receivedAt, message }
  if (known && known.samples.length >= samplesMax) {
    addEvents(known, event)
    counts.bytes += addServerId(known, serverId, 1)
    return false
  }
  const serverIds = [{ serverId, count: 1 }]
  const samples = [toSample(receivedAt, eventId, issues, text)]
  addRejections(counts, cause, { code, path, buildId, type, keyId, ...event, serverIds, samples })
  return known === undefined
}

function addEvents(
  known: RejectionCounts,
  { count, firstAt, lastAt, message }: Pick<RejectionCounts, 'count' | 'firstAt' | 'lastAt' | 'message'>,
): void {
  if (lastAt >= known.lastAt) known.message = message
  known.count += count
  known.firstAt = Math.min(known.firstAt, firstAt)
  known.lastAt = Math.max(known.lastAt, lastAt)
}

type ServersOfCause = Pick<RejectionGroup, 'serverIds'>

/** Adds events of a game server; returns how many bytes more the cause takes. */
export function addServerId(cause: ServersOfCause, serverId: string | null, count: number): number {
  const known = cause.serverIds.find((each) => each.serverId === serverId)
  if (known) {
    known.count += count
    return 0
  }
  const bytesBefore = bytesOfServerIds(cause)
  if (cause.serverIds.length >= serverIdsMax) cause.serverIds = sortedServerIds(cause).slice(0, serverIdsMax / 2)
  cause.serverIds.push({ serverId, count })
  return bytesOfServerIds(cause) - bytesBefore
}

/** Those with the most events first. */
export function sortedServerIds({ serverIds }: ServersOfCause): RejectionGroup['serverIds'] {
  return serverIds.toSorted((a, b) => b.count - a.count)
}

function bytesOfServerIds({ serverIds }: ServersOfCause): number {
  return serverIds.reduce((bytes, { serverId }) => bytes + bytesOfName(serverId), 0)
}

const unknownIssue: Issue = { code: 'not_allowed', path: '', message: '' }
const arrayIndex = /\/(?:0|[1-9]\d*)(?=\/|$)/g

/** Copies what it cuts off, as V8 would keep the whole text for the slice. */
function cut(text: string): string {
  return text.length > issueTextMax
    ? Buffer.from(`${text.slice(0, issueTextMax)}…`, 'utf16le').toString('utf16le')
    : text
}

function toSample(
  receivedAt: number,
  eventId: string | null,
  issues: readonly Issue[],
  text: Uint8Array | undefined,
): RejectionSample {
  const own = issues.map(({ code, path, message }) => ({ code, path: cut(path), message: cut(message) }))
  const sample = { receivedAt, eventId, issues: own }
  return text ? { ...sample, event: Buffer.from(text.buffer, text.byteOffset, text.length).toString() } : sample
}

function addRejections(counts: Counts, cause: string, added: RejectionCounts): void {
  let found = counts.rejections.get(cause)
  if (found) addEvents(found, added)
  else {
    if (counts.rejections.size >= causesMax) keepMostCauses(counts)
    found = { ...added, serverIds: [], samples: [] }
    counts.rejections.set(cause, found)
    counts.bytes += bytesOfCause(found)
  }
  for (const { serverId, count } of added.serverIds) counts.bytes += addServerId(found, serverId, count)
  if (added.samples.length === 0) return
  counts.bytes -= bytesOfCause(found)
  found.samples = newestSamples([...found.samples, ...added.samples])
  if (counts.bytes + bytesOfCause(found) > countsBytesMax) found.samples = []
  counts.bytes += bytesOfCause(found)
}

export function newestSamples(samples: readonly RejectionSample[]): RejectionSample[] {
  return samples.toSorted((a, b) => b.receivedAt - a.receivedAt).slice(0, samplesMax)
}

function keepMostCauses(counts: Counts): void {
  for (const { key, cause } of mostCauses(counts.rejections).slice(causesKept)) {
    counts.rejections.delete(key)
    counts.bytes -= bytesOfCause(cause)
  }
}

/** The causes, those with the most events first. */
export function mostCauses<T extends { count: number }>(causes: ReadonlyMap<string, T>): { key: string; cause: T }[] {
  return [...causes].map(([key, cause]) => ({ key, cause })).sort((a, b) => b.cause.count - a.cause.count)
}

function bytesOfCause({ path, message, type, serverIds, samples }: RejectionCounts): number {
  let bytes =
    causeBytes + 4 * (path.length + (type?.length ?? 0)) + 2 * message.length + bytesOfServerIds({ serverIds })
  for (const { eventId, issues, event } of samples) {
    bytes += sampleBytes + 2 * ((eventId?.length ?? 0) + (event?.length ?? 0))
    for (const each of issues) bytes += issueBytes + 2 * (each.path.length + each.message.length)
  }
  return bytes
}

/** Adds the counts of another span. */
export function addCounts(counts: Counts, other: Counts): void {
  counts.accepted += other.accepted
  counts.duplicates += other.duplicates
  counts.rejected += other.rejected
  for (const named of ['types', 'builds'] as const) {
    for (const [name, { accepted, rejected }] of other[named]) addName(counts, named, name, accepted, rejected)
  }
  for (const [cause, added] of other.rejections) addRejections(counts, cause, added)
}
