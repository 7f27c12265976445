import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { IngestError } from '../error.ts'
import { backslash, openBrace, openBracket } from '../json/bytes.ts'
import { parsePointer } from '../json/json-pointer.ts'
import { skipElements, skipMembers, skipValue } from '../json/json-scanner.ts'
import { parseJson } from '../json/parse-json.ts'
import type { EventStore } from '../store.ts'
import type { IngestEvent } from './event.ts'

/** Selects the events whose value at `path` equals `value`. */
export interface EraseSelection {
  /**
   * A JSON Pointer (RFC 6901), such as `/playerId` or `/player/id`. The empty pointer, which means the whole event, is
   * refused.
   */
  path: string
  /**
   * Any JSON value. A number equals the string of its digits (`7` and `"7"`), because senders write ids both ways. Pass
   * integers beyond 2^53 as strings: they are compared by their digits. `true`, `false` and `null` do not equal
   * strings.
   */
  value: unknown
}

/** The comparison as text: `/user/id is 7 or "7"`. */
export function describeSelection({ path, value }: EraseSelection): string {
  const text = typeof value === 'number' ? String(value) : value
  const isNumber = typeof text === 'string' && numberPattern.test(text)
  return `${path} is ${isNumber ? `${text} or ` : ''}${JSON.stringify(text)}`
}

/** Events and bytes that were erased, or would be. */
export interface ErasedTotals {
  events: number
  bytes: number
}

/** Options of `eraseEvents` and `retainEvents`. */
export interface ErasureOptions {
  /** Whether to count without erasing. Default: false. */
  dryRun?: boolean
  /** Erasing rejects with the reason of the signal as soon as it aborts. Events erased by then stay erased. */
  signal?: AbortSignal
  /** Called after each step with the totals so far. */
  onProgress?: (totals: Readonly<ErasedTotals>) => void
}

type ErasableStore = Pick<EventStore, 'read' | 'erase' | 'expire' | 'totals'>

/** Maximum number of ids that are held and erased together, within the limit of `erase`: at most 128 KB. */
const eraseIdsMax = 500
/** The pause after each transaction, as a multiple of its duration, so that concurrent appends proceed. */
const pauseShare = 1

/** Erases the matching events that were stored before the call. */
export async function eraseEvents(
  store: ErasableStore,
  projectId: string,
  { path, value }: EraseSelection,
  { dryRun = false, signal, onProgress = () => {} }: ErasureOptions,
): Promise<ErasedTotals> {
  const isMatch = compileMatch(path, value)
  // events stored during the call in the same millisecond are erased too
  const { lastAt = Number.NEGATIVE_INFINITY } = await store.totals(projectId)
  const totals: ErasedTotals = { events: 0, bytes: 0 }
  // holds only ids, as each event may be as large as a batch
  let ids: string[] = []
  let bytes = 0

  async function eraseFound(): Promise<void> {
    const startedAt = performance.now()
    totals.events += dryRun ? ids.length : await store.erase(projectId, ids)
    totals.bytes += bytes
    ids = []
    bytes = 0
    onProgress({ ...totals })
    if (!dryRun) await pauseSince(startedAt, signal)
  }

  for await (const page of store.read(projectId)) {
    for (const event of page) {
      signal?.throwIfAborted()
      if (event.receivedAt > lastAt || !isMatch(event.bytes)) continue
      ids.push((parseJson(event.bytes) as IngestEvent).eventId)
      bytes += event.bytes.length
      if (ids.length === eraseIdsMax) await eraseFound()
    }
    if ((page.at(-1)?.receivedAt ?? 0) > lastAt) break
  }
  // runs even without ids: this makes earlier erasures durable, whose events the read has skipped
  await eraseFound()
  return totals
}

/** Erases the events of a project that were received before a time, in milliseconds since 1970. */
export async function retainEvents(
  store: ErasableStore,
  projectId: string,
  before: number,
  { dryRun = false, signal, onProgress = () => {} }: ErasureOptions,
): Promise<ErasedTotals> {
  if (!Number.isFinite(before)) {
    throw new IngestError('invalid-argument', 'before must be a time in milliseconds since 1970.')
  }
  const totals: ErasedTotals = { events: 0, bytes: 0 }
  if (dryRun) {
    for await (const page of store.read(projectId)) {
      signal?.throwIfAborted()
      for (const { receivedAt, bytes } of page) {
        if (receivedAt >= before) return totals
        totals.events++
        totals.bytes += bytes.length
      }
    }
    return totals
  }
  for (;;) {
    signal?.throwIfAborted()
    const startedAt = performance.now()
    const { events, bytes, isDone } = await store.expire(projectId, before)
    totals.events += events
    totals.bytes += bytes
    onProgress({ ...totals })
    // a step that erased nothing has not delayed any append
    if (events > 0) await pauseSince(startedAt, signal)
    if (isDone) return totals
  }
}

async function pauseSince(startedAt: number, signal: AbortSignal | undefined): Promise<void> {
  await sleep((performance.now() - startedAt) * pauseShare, undefined, signal && { signal }).catch(() => {})
}

/** A predicate over the bytes of an event. @throws {IngestError} `invalid-argument` */
function compileMatch(path: string, value: unknown): (bytes: Uint8Array) => boolean {
  const names = parsePointer(path)
  if (!names) {
    const message = 'path must be a JSON Pointer to a member of the event, such as /playerId.'
    throw new IngestError('invalid-argument', message)
  }
  const isEqual = compileEqual(value)
  // a number may be written in several ways, such as 7.0
  const isText = typeof value === 'string' && !numberPattern.test(value)
  const text = isText ? Buffer.from(JSON.stringify(value).slice(1, -1)) : undefined
  return (bytes) => {
    const event = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
    // JSON without escapes contains the text verbatim, so most events need no parsing
    if (text && !event.includes(text) && !event.includes(backslash)) return false
    return valuesAt(event, names).some(isEqual)
  }
}

const numberPattern = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/

/** Whether the JSON of a value equals `value`, as {@link EraseSelection} says. */
function compileEqual(value: unknown): (json: Buffer) => boolean {
  const wanted = typeof value === 'number' ? String(value) : value
  if (typeof wanted !== 'string') return (json) => isDeepStrictEqual(parseJson(json), value)
  return (json) => {
    const found = parseJson(json)
    return typeof found === 'number' ? isSameNumber(json.toString('latin1').trim(), wanted) : found === wanted
  }
}

/** Whether two texts denote the same number: beyond 2^53, different integers have the same value in JavaScript. */
function isSameNumber(found: string, wanted: string): boolean {
  if (found === wanted) return true
  return numberPattern.test(wanted) && Number(found) === Number(wanted) && Math.abs(Number(found)) < 2 ** 53
}

/** The JSON values at a path: several if an object has duplicate member names, all of which are stored. */
function valuesAt(json: Buffer, [name, ...names]: readonly string[]): Buffer[] {
  if (name === undefined) return [json]
  const found: Buffer[] = []
  if (json[0] === openBrace) {
    const literal = Buffer.from(`"${name}"`)
    skipMembers(json, 0, (keyStart, keyEnd, start) => {
      const key = json.subarray(keyStart, keyEnd)
      const end = skipValue(json, start)
      const isNamed = key.includes(backslash) ? JSON.parse(key.toString()) === name : key.equals(literal)
      if (isNamed) found.push(json.subarray(start, end))
      return end
    })
  } else if (json[0] === openBracket) {
    let index = 0
    skipElements(json, 0, (start) => {
      const end = skipValue(json, start)
      if (String(index++) === name) found.push(json.subarray(start, end))
      return end
    })
  }
  return found.flatMap((each) => valuesAt(each, names))
}
