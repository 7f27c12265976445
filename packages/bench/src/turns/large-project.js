import { createHash } from 'node:crypto'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'

export const projectId = 'large'
export const manyPlacesBuild = 'build-many-places'
export const manifestBuild = 'build-manifest'
const dayMs = 86_400_000
const historyMs = 14 * dayMs
const consumersCount = 99
const typesCount = 10_000
const placeIds = ['town', 'harbour', 'mines']
/** The types of most events; each of the other types is rare. */
const liveTypes = ['player.move', 'player.move', 'shot.fired', 'player.death', 'round.start']
/** Members that are wrong in the rejected events. */
const checkedMembers = ['buildId', 'placeId', 'sessionId', 'serverId', 'playerId', 'type']

/** @typedef {import('@ingest/core').EmbeddedIngest} EmbeddedIngest */
/** @typedef {import('@ingest/core').Ingest} Project */
/** @typedef {{ builds: number, places: number, keys: number }} Sizes */

/** The newest build with many events at a time. @param {number} at */
export function releaseAt(at) {
  return `release-${new Date(at).toISOString().slice(0, 10)}`
}

/**
 * Fills a store with the 14 days before `until` of one project: as many builds, each of one event, and a new build with
 * maps and as many events a day; 10,000 types; as many keys, places and 99 consumers; and rejections with many causes,
 * keys and texts. In a store that has this project, only the history since its last event is added.
 *
 * @param {string} directory
 * @param {Sizes} sizes
 * @param {(line: string) => void} print
 */
export async function fillLargeProject(directory, sizes, print) {
  const store = await openLmdbStore(directory)
  const until = Date.now()
  const clock = { now: until - historyMs }
  const ingest = createIngest({ store, now: () => clock.now, rejected: { keepEvents: true } })
  const project = ingest.project(projectId)
  const { batches, lastAt } = await project.getStats()
  // a batch of one event for each of 70 builds, and one of 100 events of the build of the day
  const stepMs = Math.floor(historyMs / Math.ceil(sizes.builds / 70))
  clock.now = lastAt === null ? clock.now : lastAt + stepMs
  if (lastAt === null) {
    await putConsumers(store, await project.lastCursor())
    await putKeys(ingest, store, sizes.keys)
  }
  let release = ''
  for (let batch = batches / 2; clock.now < until; batch++, clock.now += stepMs) {
    if (releaseAt(clock.now) !== release) {
      release = releaseAt(clock.now)
      await publishReleaseMaps(project, release)
    }
    const keyId = keyIdOf(batch % sizes.keys)
    for (const events of [eventsOfBuilds(batch, clock.now), eventsOfRelease(batch, clock.now)]) {
      await project.submitBatch(Buffer.from(JSON.stringify({ events })), { keyId })
    }
    if (batch % 1_000 === 999) print(`up to ${new Date(clock.now).toISOString()}`)
  }
  if (lastAt === null) await publishMaps(project, sizes.places, print)
  await ingest.close()
}

/** @param {number} batch @param {number} at */
function eventsOfBuilds(batch, at) {
  const stored = Array.from({ length: 70 }, (_, i) => ({
    projectId,
    eventId: `${batch}-${i}`,
    type: `type.${(batch * 70 + i) % typesCount}`,
    buildId: `build-${String(batch * 70 + i).padStart(9, '0')}`,
  }))
  const rejected = Array.from({ length: 30 }, (_, i) => ({
    projectId,
    eventId: `${batch}-r${i}`,
    type: `type.${i % 5}`,
    buildId: releaseAt(at),
    serverId: `game-${i % 7}`,
    text: 'x'.repeat(i === batch % 30 ? 15_000 : 300),
    [checkedMembers[i % checkedMembers.length] ?? '']: [i],
  }))
  return [...stored, ...rejected]
}

/** @param {number} batch @param {number} at */
function eventsOfRelease(batch, at) {
  return Array.from({ length: 100 }, (_, i) => {
    const player = (batch * 37 + i) % 1_000
    return {
      projectId,
      eventId: `${batch}-p${i}`,
      type: liveTypes[i % liveTypes.length],
      timestamp: at,
      buildId: releaseAt(at),
      placeId: placeIds[player % placeIds.length],
      sessionId: `session-${player}-${Math.floor(at / 3_600_000)}`,
      serverId: `game-${player % 20}`,
      playerId: `player-${player}`,
      position: { x: ((batch + i) * 37) % 997, y: (i % 3) * 20, z: ((batch + i) * 91) % 1009 },
    }
  })
}

/** @param {Project} project @param {string} buildId */
async function publishReleaseMaps(project, buildId) {
  const parts = Array.from({ length: 200 }, (_, i) => ({
    name: 'house',
    position: [(i * 67) % 997, 10, (i * 131) % 1009],
    size: [20, 20, 30],
  }))
  for (const placeId of placeIds) {
    // frozen if the store has events of this day already
    if (!(await project.getMap({ placeId, buildId }))) await project.publishMap({ placeId, buildId, map: { parts } })
  }
}

/** @param {import('@ingest/core').Store} store @param {string} cursor */
async function putConsumers(store, cursor) {
  const consumers = Array.from({ length: consumersCount }, (_, i) => ({
    name: `c${String(i).padStart(3, '0')}`,
    cursor,
    updatedAt: Date.now(),
  }))
  await store.updateEntry('consumers', projectId, () => ({ entry: consumers, result: undefined }))
}

/** @param {number} i */
const keyIdOf = (i) => String(i).padStart(8, '0')

/** @param {EmbeddedIngest} ingest @param {import('@ingest/core').Store} store @param {number} count */
async function putKeys({ keys }, store, count) {
  const { record } = await keys.create(projectId)
  await store.updateEntry('project', projectId, (project) => {
    if (!project) throw new Error('The key made the project.')
    const others = Array.from({ length: count - 2 }, (_, i) => ({
      ...record,
      keyId: keyIdOf(i),
      name: `servers of region ${i}`,
      hash: createHash('sha256').update(String(i)).digest('hex'),
      // revoked, so that a new key may replace one
      ...(i > 100 && { revokedAt: 1 }),
    }))
    return { entry: { ...project, keys: [...project.keys, ...others] }, result: undefined }
  })
}

/** @param {Project} project @param {number} places @param {(line: string) => void} print */
async function publishMaps(project, places, print) {
  const half = places / 2
  for (let at = 0; at < places; at += 500) {
    const publishing = Array.from({ length: Math.min(500, places - at) }, (_, i) => {
      const place = at + i
      const buildId = place < half ? manyPlacesBuild : `map-${String(place).padStart(9, '0')}`
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
