import assert from 'node:assert/strict'
import type {
  AppendBatch,
  AppendEvent,
  AppendResult,
  KeyRecord,
  Project,
  ReadOptions,
  Store,
  StoredEvent,
} from '@ingest/core'
import { encodeEvents, type ParsedEvent, parseBatch } from '@ingest/core/internal'
import { codeOf, range } from './store-check.ts'

interface BatchOptions {
  receivedAt?: number
  /** The elements of `events` to store. Default: all. */
  indexes?: readonly number[]
}

/** The hash key of no store, so that a store that uses hashes must compute them again. */
const hashKey = Buffer.alloc(16, 'sample')

/** A batch of these events, each given as JSON. */
export function batchOf(texts: readonly string[], options: BatchOptions = {}): AppendBatch {
  return batchFrom(`{"events":[${texts.join(',')}]}`, options)
}

export function batchFrom(body: string, { receivedAt = 1_000, indexes }: BatchOptions = {}): AppendBatch {
  const { events: all } = JSON.parse(body) as { events: { eventId: string; buildId?: string }[] }
  const bytes = Buffer.from(body)
  const parsed = parseBatch(bytes)
  const events = (indexes ?? range(all.length)).map((index) => {
    const { eventId, buildId } = all[index] as { eventId: string; buildId?: string }
    const { start, end, idStart, idEnd } = parsed[index] as ParsedEvent
    const event: AppendEvent = { eventId, start, end, idStart, idEnd }
    return buildId === undefined ? event : { ...event, buildId }
  })
  return { body: bytes, events: encodeEvents(events, hashKey), receivedAt }
}

export function event(eventId: string, members: object = {}): string {
  return JSON.stringify({ projectId: 'p', eventId, ...members })
}

/** The result of an append that freezes no build. */
export function appended(stored: boolean[], conflicts = 0): AppendResult {
  return { stored, conflicts, frozen: [] }
}

export const oddEvents: readonly string[] = [
  '{ "projectId" :"p",\t"eventId":\n"spaces" ,"list": [ 1 , 2\r\n] , "empty":{ } }',
  '{"projectId":"p","eventId":"numbers","a":12345678901234567890,"b":1.0,"c":1E+2,"d":-0,"e":1e400,"f":0.1e-7}',
  '{"projectId":"p","eventId":"repeated","a":1,"a":{"a":2},"a":3}',
  '{"projectId":"p","eventId":"first","eventId":"last"}',
  '{"\\u0065vent\\u0049d":"escaped key","projectId":"p"}',
  '{"projectId":"p","eventId":"\\u0061\\/\\ud83d\\uDE00\\"\\\\"}',
  '{"projectId":"p","eventId":"brackets","a":"}]},[{\\"","b":"\\\\","c":"\\\\\\"]","]":"}"}',
  '{"projectId":"p","events":[{"eventId":"inner"}],"of":{"eventId":"inner"},"eventId":"nested"}',
  '{"projectId":"p","eventId":"unicode","é":"e\u0301 日本語 😀 \u2028\u2029\u007f\ufeff"}',
  '{"projectId":"p","eventId":"surrogate","a":"\\ud800","b":"\\udc00\\ud800","c":"\\u0000"}',
  '{"projectId":"p","eventId":"proto","__proto__":{"eventId":"inner"},"constructor":null}',
  '{"eventId":"short"}',
  `{"projectId":"p","eventId":"deep","a":${'['.repeat(30)}{}${']'.repeat(30)}}`,
]

/** Ways to write a body around an array of events. */
export const envelopes: readonly ((events: string) => string)[] = [
  (events) => `{"events":${events}}`,
  (events) => ` \r\n\t{ "events"\n:\t${events} }\n `,
  (events) => `{"\\u0065vent\\u0073":${events}}`,
  (events) => `{"events":[{"eventId":"lost"}],"events":${events}}`,
  (events) => `{"events":[{"eventId":"lost"}],"\\u0065vents":null,"events" :${events},"Events":[1],"events ":[2]}`,
  (events) => `{"a":{"events":[{"eventId":"inner"}]},"b":["events",[{}]],"events":${events},"c":{"events":[3]}}`,
  (events) => `{"a":"\\"events\\":[","b":-1.5e3,"c":true,"d":null,"\\"":"\\\\","events":${events},"e":"}","f":"]"}`,
  (events) => `{"":{},"é😀":"\u2028","events\\u0000":[4],"__proto__":{"events":[5]},"events":${events},"z":0 }`,
]

/** Ids that are equal only after some folding, trimming, normalizing, unescaping or shortening. */
export const lookAlikes: readonly string[] = [
  ...['a', 'A', ' a', 'a ', '  a', 'a\u00a0', 'a\u200b', '\ufeffa', 'aa', 'b', '`'],
  ...['\u00e9', 'e\u0301', 'e', '\u00c5', '\u212b', 'A\u030a', '\ufb01', 'fi'],
  ...['ß', 'ss', 'SS', 'İ', 'i̇', 'ı', 'ä', 'ae'],
  ...['1', '01', '1.0', '+1', '１', '0x1', 'true', 'null', 'undefined', '[]', '{}', ' '],
  ...['"', '\\', '\\"', '""', '\\\\', '/', '\\/', '\\u0061', '%61', '&amp;', '&', "'", '\u2028', '\u0080'],
  ...['😀', '😁', '\u{10ffff}', '\uffff', '\ud7ff', '\ue000', '👩‍👩‍👧', '👩‍👩‍👦'],
  ...['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'length'],
  ...['x'.repeat(254), 'x'.repeat(255), 'x'.repeat(256), `${'x'.repeat(255)}y`, `y${'x'.repeat(255)}`],
  ...['é'.repeat(64), `${'é'.repeat(63)}è`, 'é'.repeat(128), `${'é'.repeat(127)}è`],
  ...['😀'.repeat(64), `${'😀'.repeat(63)}😁`],
]

/** Stores five events in three batches, with one of another project in between, and returns their ids in order. */
export async function appendSome(store: Store): Promise<string[]> {
  await store.append('q', batchOf([event('a')]))
  await store.append('p', batchOf([event('a', { buildId: 'b' }), event('b')]))
  await store.append('q', batchOf([event('b')]))
  await store.append('p', batchOf([event('b'), event('c')]))
  await store.append('p', batchOf([event('d'), event('x'), event('e')], { indexes: [0, 2] }))
  return ['a', 'b', 'c', 'd', 'e']
}

/** Appends 4 batches of 100 events of about 500 bytes to the project `p`, more than one page. Returns the ids. */
export async function appendLarge(store: Store): Promise<string[]> {
  const fill = 'x'.repeat(500)
  const ids = Array.from({ length: 400 }, (_, i) => `large-${i}`)
  for (let at = 0; at < ids.length; at += 100) {
    await store.append('p', batchOf(ids.slice(at, at + 100).map((id) => event(id, { fill }))))
  }
  return ids
}

export async function readAll(store: Store, projectId = 'p', options?: ReadOptions): Promise<StoredEvent[]> {
  const events: StoredEvent[] = []
  for await (const page of store.read(projectId, options)) events.push(...page)
  // one type of byte array, so that results can be compared
  return events.map(({ cursor, receivedAt, bytes }) => ({ cursor, receivedAt, bytes: Uint8Array.from(bytes) }))
}

export async function textsOf(store: Store, projectId = 'p'): Promise<string[]> {
  return (await readAll(store, projectId)).map(textOf)
}

export async function idsOf(store: Store, projectId = 'p'): Promise<string[]> {
  return (await readAll(store, projectId)).map(idOfStored)
}

/** The times at which the events were received. */
export async function timesOf(store: Store): Promise<number[]> {
  return (await readAll(store)).map(({ receivedAt }) => receivedAt)
}

export function textOf(stored: StoredEvent | undefined): string {
  assert.ok(stored, 'the event is not there')
  return Buffer.from(stored.bytes).toString()
}

export function idOfStored(stored: StoredEvent): string {
  return idOf(textOf(stored))
}

export function idOf(text: string): string {
  return (JSON.parse(text) as { eventId: string }).eventId
}

/** The events of a batch that `event` wrote. */
export function textsIn(batch: AppendBatch): string[] {
  const { events } = JSON.parse(Buffer.from(batch.body).toString()) as { events: object[] }
  return events.map((each) => JSON.stringify(each))
}

/** Publishes an empty map. */
export async function publishEmpty(store: Store, buildId: string, placeId: string, projectId = 'p'): Promise<void> {
  const manifest = { contentType: 'a/b', size: 0, digest: `sha256:${'0'.repeat(64)}`, chunks: [] }
  const contents = { complete: { manifest, publishedAt: 1 } }
  await store.updateMap({ projectId, placeId, buildId }, {}, () => ({ contents, result: undefined }))
}

export function nameOfBuild(i: number): string {
  return `build-${String(i).padStart(6, '0')}`
}

export async function frozenAt(store: Store, buildId: string, projectId = 'p'): Promise<number | undefined> {
  return (await store.map({ projectId, placeId: 'x', buildId })).frozenAt
}

export function projectWith(keyIds: readonly string[]): Project {
  return { projectId: 'p', createdAt: 1_000, keys: keyIds.map(keyRecord) }
}

/** Adds a key to project `p`. */
export async function addKey(store: Store, keyId: string): Promise<void> {
  await store.updateEntry('project', 'p', (project) => ({
    entry: { ...projectWith([]), keys: [...(project?.keys ?? []), keyRecord(keyId)] },
    result: undefined,
  }))
}

export function keyRecord(keyId: string): KeyRecord {
  return { keyId, name: 'Live "1"', hash: '00', scopes: ['read', 'events:write'], createdAt: 1_000, expiresAt: 2_000 }
}

export async function outcomeOf(append: Promise<AppendResult>): Promise<string> {
  try {
    const { stored } = await append
    return stored.every(Boolean) ? 'stored' : 'duplicate'
  } catch (error) {
    return codeOf(error)
  }
}
