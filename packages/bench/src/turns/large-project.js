import { createHash } from 'node:crypto'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'

export const projectId = 'large'
export const manyPlacesBuild = 'build-many-places'
export const manifestBuild = 'build-manifest'
const minuteMs = 60_000
const batchEvents = 70
const rejectedEvents = 30

/**
 * Fills a store in an empty directory with one project of as many builds, places, keys and consumers, and 14 days of
 * activity with full rows: events of many types and builds, and rejections with many causes and texts.
 *
 * @param {string} directory
 * @param {{ builds: number, places: number, keys: number, consumers: number, days: number }} sizes
 * @param {(line: string) => void} print
 */
export async function fillLargeProject(directory, sizes, print) {
  const store = await openLmdbStore(directory)
  const batches = Math.ceil(sizes.builds / batchEvents)
  const stepMs = (sizes.days * 24 * 60 * minuteMs) / batches
  const clock = { now: Date.now() - sizes.days * 24 * 60 * minuteMs }
  const ingest = createIngest({ store, now: () => clock.now, rejected: { keepEvents: true } })
  const project = ingest.project(projectId)
  const start = await project.lastCursor()
  for (let batch = 0; batch < batches; batch++) {
    await project.submitBatch(Buffer.from(JSON.stringify({ events: eventsOf(batch) })))
    clock.now += stepMs
    if (batch % 1_000 === 999) print(`${batch + 1} of ${batches} batches`)
  }
  await putConsumers(store, sizes.consumers, start)
  await putKeys(ingest, store, sizes.keys)
  await publishMaps(project, sizes.places, print)
  await ingest.close()
}

/** @param {number} batch */
function eventsOf(batch) {
  const stored = Array.from({ length: batchEvents }, (_, i) => ({
    projectId,
    eventId: `${batch}-${i}`,
    type: `type.${(batch + i) % 200}`,
    buildId: `build-${String(batch * batchEvents + i).padStart(9, '0')}`,
  }))
  const rejected = Array.from({ length: rejectedEvents }, (_, i) => ({
    projectId,
    eventId: `${batch}-r${i}`,
    type: `type.${i}`,
    buildId: i,
    text: 'x'.repeat(300),
  }))
  return [...stored, ...rejected]
}

/** @param {import('@ingest/core').Store} store @param {number} count @param {string} cursor */
async function putConsumers(store, count, cursor) {
  const consumers = Array.from({ length: count }, (_, i) => ({
    name: `c${String(i).padStart(3, '0')}`,
    cursor,
    updatedAt: Date.now(),
  }))
  await store.updateEntry('consumers', projectId, () => ({ entry: consumers, result: undefined }))
}

/** @param {import('@ingest/core').EmbeddedIngest} ingest @param {import('@ingest/core').Store} store @param {number} count */
async function putKeys({ keys }, store, count) {
  const { record } = await keys.create(projectId)
  await store.updateEntry('project', projectId, (project) => {
    if (!project) throw new Error('The key made the project.')
    const others = Array.from({ length: count - 2 }, (_, i) => ({
      ...record,
      keyId: String(i).padStart(8, '0'),
      hash: createHash('sha256').update(String(i)).digest('hex'),
      // revoked, so that a new key may replace one
      ...(i > 100 && { revokedAt: 1 }),
    }))
    return { entry: { ...project, keys: [...project.keys, ...others] }, result: undefined }
  })
}

/** @param {import('@ingest/core').Ingest} project @param {number} places @param {(line: string) => void} print */
async function publishMaps(project, places, print) {
  const half = places / 2
  for (let at = 0; at < places; at += 500) {
    const publishing = Array.from({ length: Math.min(500, places - at) }, (_, i) => {
      const place = at + i
      const buildId = place < half ? manyPlacesBuild : `build-${String(place).padStart(9, '0')}`
      return project.publishMap({ placeId: String(place), buildId, map: { place } })
    })
    await Promise.all(publishing)
    if (at % 10_000 === 0) print(`${at} of ${places} maps`)
  }
  const digest = (/** @type {number} */ i) => `sha256:${createHash('sha256').update(`chunk ${i}`).digest('hex')}`
  const chunks = Array.from({ length: 11_000 }, (_, i) => ({ digest: digest(i), size: 100 }))
  const manifest = { contentType: 'application/json', size: 1_100_000, digest: digest(-1), chunks }
  await project.publishMap({ placeId: '1', buildId: manifestBuild, manifest })
}
