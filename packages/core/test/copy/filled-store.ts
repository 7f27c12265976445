import { createIngest } from '../../src/ingest.ts'
import { digestOf } from '../../src/maps/digest.ts'
import type { Store } from '../../src/store.ts'
import type { Manifest } from '../../src/store-types.ts'

export const [alpha, beta] = ['alpha', 'beta']

/** Chunks of maps, by name. */
export const chunkOf = (name: string): Buffer => Buffer.from(`${name} `.repeat(100))

export function manifestOf(...names: string[]): Manifest {
  const chunks = names.map((name) => ({ digest: digestOf(chunkOf(name)), size: chunkOf(name).length }))
  return {
    contentType: 'application/octet-stream',
    size: chunks.reduce((sum, { size }) => sum + size, 0),
    digest: digestOf(...names.map(chunkOf)),
    chunks,
  }
}

/** Events whose bytes a copy may not change, and whose ids and builds are not where they usually are. */
const oddEvents = [
  '{ "projectId" : "alpha",\n\t"eventId":"odd-1", "n": 12345678901234567890.10 }',
  '{"eventId":"odd-\\u0032\\"","projectId":"alpha","text":"\\u0000 \\ud83d\\ude00 é"}',
  '{"buildId":"not-this","projectId":"alpha","eventId":"odd-3","buildId":"odd-build"}',
  '{"payload":{"eventId":"inner","buildId":"inner"},"projectId":"alpha","eventId":"odd-4","buildId":null}',
  '{"\\u0062uildId":"escaped-\\u00e9","projectId":"alpha","eventId":"odd-5"}',
]

/** A clock that stands still for some events. */
export function createClock(start = 1_700_000_000_000): () => number {
  let calls = 0
  return () => start + Math.floor(calls++ / 3)
}

/** Stores `count` events of each project, in small batches that alternate. */
export async function storeEvents(store: Store, name: string, count: number, now = createClock()): Promise<void> {
  const { project } = createIngest({ store, now })
  for (let i = 0; i < count; ) {
    const size = 1 + (i % 7)
    for (const projectId of [alpha, beta]) {
      const events = Array.from({ length: Math.min(size, count - i) }, (_, k) => {
        return { projectId, eventId: `${name}-${i + k}`, ...(i % 5 === 0 && { buildId: `build-${i % 3}` }), i }
      })
      await project(projectId).submitBatch({ events })
    }
    i += size
  }
}

/**
 * Fills a store with two projects: odd events, frozen and open builds, complete and unfinished maps, keys of which one is
 * revoked. Returns a key of `alpha`.
 */
export async function fillStore(store: Store, { events = 60, now = createClock() } = {}): Promise<string> {
  const { project, keys } = createIngest({ store, now })
  const { publishMap, putChunk, submitBatch } = project(alpha)
  const upload = async (...names: string[]) => {
    for (const name of names) await putChunk(digestOf(chunkOf(name)), chunkOf(name))
  }
  await publishMap({ placeId: '1', buildId: 'build-0', map: { walls: 4 } })
  // the same chunk twice, and in two maps
  await publishMap({ placeId: '2', buildId: 'build-0', manifest: manifestOf('a', 'b', 'a') })
  await upload('a', 'b')
  await publishMap({ placeId: '2', buildId: 'open', manifest: manifestOf('a', 'c') })
  await upload('c')
  await publishMap({ placeId: '2', buildId: 'open', manifest: manifestOf('a', 'd', 'e') })
  await upload('d')
  await publishMap({ placeId: '3', buildId: 'build-1', manifest: manifestOf('b', 'f', 'g') })
  await upload('f')
  await submitBatch(Buffer.from(`{"events":[${oddEvents.join(',')}]}`))
  await storeEvents(store, 'e', events, now)
  const { key } = await keys.create(alpha)
  const { record } = await keys.create(alpha, { scopes: ['read'] })
  await keys.revoke(alpha, record.keyId)
  await keys.create('only-a-key')
  return key
}

/** All that a copy keeps of a project. */
export async function contentsOf(store: Store, projectId: string) {
  const events: [number, string][] = []
  for await (const page of store.read(projectId, { erased: true }))
    for (const { receivedAt, bytes, erased } of page) events.push([receivedAt, erased ?? Buffer.from(bytes).toString()])
  const maps: object[] = []
  const chunks: Record<string, string | undefined> = {}
  for (const { placeId, buildId, slot } of await store.maps(projectId, { limit: 1000 })) {
    if (!slot.complete) continue
    maps.push({ placeId, buildId, frozenAt: slot.frozenAt, complete: slot.complete })
    for (const { digest } of slot.complete.manifest.chunks) {
      const bytes = await store.readChunk(projectId, digest)
      chunks[digest] = bytes && Buffer.from(bytes).toString()
    }
  }
  const { builds } = await store.builds(projectId, { limit: 1000 })
  const frozen = builds.flatMap(({ buildId, frozenAt }) => (frozenAt === undefined ? [] : [{ buildId, frozenAt }]))
  return { events, frozen, maps, chunks, project: await store.entry('project', projectId) }
}

/** The contents of all projects. */
export async function allContentsOf(store: Store): Promise<object> {
  const all: Record<string, object> = {}
  for (const projectId of await store.projects()) all[projectId] = await contentsOf(store, projectId)
  return all
}
