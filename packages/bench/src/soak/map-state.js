import { createHash } from 'node:crypto'
import { request } from './request.js'
import { codeOf } from './send-batch.js'
import { headersOf } from './site.js'

/**
 * What is known of the map of one build.
 *
 * @typedef {object} MapState
 * @property {string} buildId
 * @property {Set<string>} possible digests that its content may have
 * @property {boolean} isPublished whether a publication was confirmed
 * @property {boolean} isFrozen whether an event that names the build is acknowledged
 * @property {string | undefined} fixed the digest that was read after it froze: it must not change
 */

export const placeId = 'place'

/**
 * Reads the content of a map, and compares its digest with what it may be.
 *
 * @param {import('./site.js').Site} site
 * @param {MapState} map
 * @param {{ server: import('./servers.js').Incarnation, random: import('./random.js').Random }} options
 * @returns {Promise<boolean>} whether it was read
 */
export async function readMap(site, map, { server, random }) {
  // the content of a read that began before a publication may be the one before it
  const { isFrozen, isPublished, fixed, buildId } = map
  const before = [...map.possible]
  const projectId = site.projects.plain
  const { status, body } = await request(site.run, server, {
    method: 'GET',
    path: `/v1/maps/content?placeId=${placeId}&buildId=${buildId}`,
    headers: headersOf(site, projectId, random),
  })
  const details = { projectId, buildId, server: server.id, status }
  if (status === 200) {
    const digest = `sha256:${createHash('sha256').update(body).digest('hex')}`
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
  // a server that was stopped may find that requests took too long; nothing replaces the map of a frozen build
  if (![0, 408, 503].includes(status) || (code === 'map-replaced' && isFrozen && map.isPublished)) {
    site.run.violate('a published map is read', { ...details, code })
  }
  return false
}
