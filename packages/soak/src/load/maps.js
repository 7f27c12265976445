import { createCipheriv, createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { runCommand } from './run-command.js'
import { codeOf, headersOf, pickServer, request, sendBatch } from './send-batch.js'

/**
 * @typedef {import('../site/site.js').Site} Site
 * @typedef {import('../site/run.js').Random} Random
 */

/**
 * The known state of the map of one build.
 *
 * @typedef {object} MapState
 * @property {string} buildId
 * @property {Set<string>} possible digests that its content may have
 * @property {boolean} isPublished whether a publication was confirmed
 * @property {boolean} isFrozen whether an event that references the build was acknowledged
 * @property {string | undefined} fixed the digest that was read after the build was frozen; it must not change
 */

const placeId = 'place'
/** Few sizes, so that builds share most of their chunks. */
const mapBytes = [0, 100, 700_000, 1_000_000, 1_500_000]
const olderMaps = 3
const freezeAttemptsMax = 20

/** Publishes maps in chunks, replaces them, freezes their builds and publishes over them. @param {Site} site @param {string} name */
export async function runMaps(site, name) {
  const { run } = site
  const random = run.random(name)
  while (!run.stopping.aborted) {
    if (site.isFull) await readSome(site, random)
    else await runMapOnce(site, random, join(run.directory, `${name}.bin`))
    await run.pause(random.integer(100, 800))
  }
}

/** @param {Site} site @param {Random} random @param {string} file */
async function runMapOnce(site, random, file) {
  const buildId = `map-${site.maps.length}`
  /** @type {MapState} */
  const map = { buildId, possible: new Set(), isPublished: false, isFrozen: false, fixed: undefined }
  site.maps.push(map)
  const size = random.pick(mapBytes)
  const first = altered(mapContent(size), random)
  await publish(site, map, { content: first, file, random })
  if (random.chance(0.6)) await publish(site, map, { content: altered(first, random), file, random })
  if (random.chance(0.7)) await freeze(site, map, random)
  await readSome(site, random, map)
  if (map.isFrozen && random.chance(0.5)) await publish(site, map, { content: altered(first, random), file, random })
  await readSome(site, random, map)
}

/** @param {Site} site @param {Random} random @param {MapState} [map] */
async function readSome(site, random, map) {
  const server = pickServer(site, random)
  if (!server || site.maps.length === 0) return
  if (map) await readMap(site, map, { server, random })
  for (let i = 0; i < olderMaps; i++) await readMap(site, random.pick(site.maps), { server, random })
}

/** @param {Site} site @param {MapState} map @param {{ content: Buffer, file: string, random: Random }} options */
async function publish(site, map, { content, file, random }) {
  const { run, projects } = site
  writeFileSync(file, content)
  const digest = digestOf(content)
  const { isFrozen } = map
  const earlier = [...map.possible]
  const fixed = map.fixed ?? (isFrozen && map.isPublished && earlier.length === 1 ? earlier[0] : undefined)
  map.possible.add(digest)
  const server = random.chance(0.6) ? pickServer(site, random) : undefined
  const at = ['--place', placeId, '--build', map.buildId, '--project', projects.plain]
  const target = server
    ? ['--url', `http://127.0.0.1:${server.port}`, '--retries', '1', '--timeout', '20s']
    : ['--store', site.store]
  const args = ['publish-map', file, ...at, ...target, '--allow-empty', '--json', '--quiet']
  const env = { INGEST_KEY: random.pick(site.keys.get(projects.plain) ?? []) }
  const { code, isDone } = await runCommand(site, args, {
    random,
    env,
    allowed: isFrozen ? [3] : [],
    killProbability: 0.2,
  })
  if (!isDone) {
    // refused because the build is frozen
    if (code === 3 && !earlier.includes(digest)) map.possible.delete(digest)
    return
  }
  if (fixed !== undefined && digest !== fixed) {
    run.violate('a frozen map is not replaced', { buildId: map.buildId, digest, fixed })
  }
  map.isPublished = true
  map.possible = new Set([digest])
}

/** Freezes a build with an event that references it. @param {Site} site @param {MapState} map @param {Random} random */
async function freeze(site, map, random) {
  const { ledger, projects, run } = site
  const batch = ledger.addBatch({ projectId: projects.plain, player: -2, buildId: map.buildId, isPlain: true })
  for (let i = 0; i < freezeAttemptsMax && !run.stopping.aborted; i++) {
    const server = pickServer(site, random)
    if (server && (await sendBatch(site, batch, { server, random, purpose: 'freeze' }))) {
      map.isFrozen = true
      return
    }
    await run.pause(200)
  }
}

/** The same bytes for the same size; no two chunks are equal. @param {number} size */
function mapContent(size) {
  return createCipheriv('aes-256-ctr', Buffer.alloc(32, 1), Buffer.alloc(16)).update(Buffer.alloc(size))
}

/** A changed copy of a map that keeps most of its chunks. @param {Buffer} content @param {Random} random */
function altered(content, random) {
  const copy = Buffer.concat([content, Buffer.from(`altered ${random.next()}`)])
  copy.fill(random.integer(0, 255), 0, Math.min(copy.length, 1000))
  return copy
}

/**
 * Reads the content of a map and compares its digest with the possible ones.
 *
 * @param {Site} site
 * @param {MapState} map
 * @param {{ server: import('../site/servers.js').Incarnation, random: Random }} options
 * @returns {Promise<boolean>} whether it was read
 */
export async function readMap(site, map, { server, random }) {
  // a read that began before a publication may return the previous content
  const { isFrozen, isPublished, fixed, buildId } = map
  const before = [...map.possible]
  const projectId = site.projects.plain
  const { status, body } = await request(site.run, server, {
    method: 'GET',
    path: `/v1/maps/content?placeId=${placeId}&buildId=${buildId}`,
    headers: headersOf(site, projectId, random),
    mayBeCut: site.isPostgres || !isFrozen || !isPublished,
  })
  const details = { projectId, buildId, server: server.id, status }
  if (status === 200) {
    const digest = digestOf(body)
    if (fixed !== undefined && digest !== fixed) {
      site.run.violate('the bytes of a frozen map do not change', { ...details, digest, fixed })
    } else if (!map.possible.has(digest) && !before.includes(digest)) {
      site.run.violate('a map has the bytes that were published', { ...details, digest, possible: [...map.possible] })
    }
    if (isFrozen) map.fixed = digest
    return true
  }
  if (status === 404 && !isPublished && fixed === undefined) return true
  const code = codeOf(body.toString())
  // a server may time out requests after it was stopped; the map of a frozen build is never replaced
  if (![0, 408, 503].includes(status) || (code === 'map-replaced' && isFrozen && map.isPublished)) {
    site.run.violate('a published map is read', { ...details, code })
  }
  return false
}

/** @param {Buffer} bytes */
function digestOf(bytes) {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`
}
