import { fork } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { crc32 } from 'node:zlib'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { fillLargeProject, manifestBuild, manyPlacesBuild, projectId } from './turns/large-project.js'

// Prints, for each route, the longest turn of a server's event loop during one request, with one very large project:
//
//   pnpm turns DIRECTORY [--builds 1000000] [--only REGEXP]
//
// Three numbers for each route, in milliseconds of processor time: the minimum and the median of the rounds, and the
// median of all turns together. An empty directory is filled first, which takes a few minutes; another one gets the
// history since its last event. Linux only.

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    builds: { type: 'string', default: '1000000' },
    places: { type: 'string', default: '100000' },
    keys: { type: 'string', default: '1000' },
    rounds: { type: 'string', default: '5' },
    only: { type: 'string', default: '' },
  },
})
const [directory] = positionals
if (directory === undefined) throw new Error('Name the directory of the store.')
const sizes = { builds: Number(values.builds), places: Number(values.places), keys: Number(values.keys) }
await fillLargeProject(directory, sizes, (line) => console.error(line))
const adminToken = 'a-token-of-the-benchmark'
const { key, cursor } = await prepare(directory)
const child = fork(join(import.meta.dirname, 'turns/measured-server.js'), [directory, adminToken])
const [{ url, adminUrl }] = await once(child, 'message')

const day = 86_400_000
const at = (/** @type {number} */ ms) => new Date(Date.now() - ms).toISOString()
const event = (/** @type {object} */ members) => ({ projectId, eventId: crypto.randomUUID(), ...members })
const hundred = Array.from({ length: 100 })
const digestOf = (/** @type {Uint8Array} */ bytes) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`
const json = (/** @type {string} */ method, /** @type {unknown} */ value) => ({
  method,
  headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify(value),
})

let uploads = 0
/** Publishes a manifest of 16 new chunks of 180 kB, and uploads them. */
async function uploadChunks() {
  const bytes = Array.from({ length: 16 }, (_, i) => Buffer.alloc(180_000, `${Date.now()} ${uploads++} ${i} `))
  const whole = Buffer.concat(bytes)
  const chunks = bytes.map((each) => ({ digest: digestOf(each), size: each.length }))
  const manifest = { contentType: 'text/plain', size: whole.length, digest: digestOf(whole), chunks }
  await send('/v1/maps', json('PUT', { placeId: '1', buildId: `upload-${Date.now()}-${uploads}`, manifest }))
  return json('PUT', { chunks: bytes.map((each, i) => ({ digest: chunks[i]?.digest, data: each.toString('base64') })) })
}

const largeManifest = () => ({
  contentType: 'text/plain',
  size: 11_000,
  digest: digestOf(Buffer.from(`${Date.now()}`)),
  chunks: Array.from({ length: 11_000 }, (_, i) => ({ digest: digestOf(Buffer.from(`${i} ${Date.now()}`)), size: 1 })),
})

/** @typedef {[path: string, makeRequest?: () => RequestInit | Promise<RequestInit>]} Route */
/** @type {Record<string, Route>} */
const routes = {
  'GET /v1/stats': ['/v1/stats'],
  'GET /v1/builds, 1,000': ['/v1/builds?limit=1000'],
  'GET /v1/builds at a build of 50,000 places': [`/v1/builds?limit=1&cursor=${listCursor()}`],
  'GET /v1/builds, search of 10,000': ['/v1/builds?search=none&limit=1000'],
  'GET /v1/builds, search that finds all': ['/v1/builds?search=build&limit=1000'],
  'GET /v1/maps, 1,000': ['/v1/maps?limit=1000'],
  'GET /v1/maps of a build': [`/v1/maps?buildId=${manyPlacesBuild}&limit=1000`],
  'GET /v1/maps of a place': ['/v1/maps?placeId=99999&limit=1000'],
  'GET /v1/maps, one': [`/v1/maps?buildId=${manyPlacesBuild}&placeId=1`],
  'GET /v1/maps, of 11,000 chunks': [`/v1/maps?buildId=${manifestBuild}&placeId=1`],
  'GET /v1/maps/content': [`/v1/maps/content?buildId=${manyPlacesBuild}&placeId=1`],
  'GET /v1/activity, 14 days': [`/v1/activity?from=${at(14 * day)}`],
  'GET /v1/activity, 14 days by build': [`/v1/activity?by=build&from=${at(14 * day)}`],
  'GET /v1/activity, 14 days by type': [`/v1/activity?by=type&from=${at(14 * day)}`],
  'GET /v1/activity, a day by type': [`/v1/activity?by=type&from=${at(day)}`],
  'GET /v1/activity, 6 hours by type': [`/v1/activity?by=type&from=${at(day / 4)}`],
  'GET /v1/rejected, 14 days': [`/v1/rejected?from=${at(14 * day)}`],
  'GET /v1/rejected, a day': [`/v1/rejected?from=${at(day)}`],
  'GET /v1/events, 1,000': ['/v1/events?limit=1000'],
  'GET /v1/events, none found': ['/v1/events?type=none&limit=1000'],
  'GET /v1/events, by id': ['/v1/events?eventId=10-1'],
  'GET /v1/consumers': ['/v1/consumers'],
  'GET /v1/consumers/{name}': ['/v1/consumers/c000'],
  'PUT /v1/consumers/{name}': ['/v1/consumers/new', async () => json('PUT', { cursor, replaces: null })],
  'DELETE /v1/consumers/{name}': ['/v1/consumers/new', () => ({ method: 'DELETE' })],
  'POST /v1/events/batch, stored': [
    '/v1/events/batch',
    () => json('POST', { events: hundred.map((_, i) => event({ buildId: `new-${Date.now()}-${i}` })) }),
  ],
  'POST /v1/events/batch, rejected': [
    '/v1/events/batch',
    () => json('POST', { events: hundred.map((_, i) => event({ buildId: i, text: 'x'.repeat(2_000) })) }),
  ],
  'PUT /v1/maps, 1 MB': [
    '/v1/maps',
    () => json('PUT', { placeId: '1', buildId: `m-${Date.now()}`, map: Array(100_000).fill(12_345_678) }),
  ],
  'PUT /v1/maps, 11,000 chunks': [
    '/v1/maps',
    () => json('PUT', { placeId: '1', buildId: 'manifest', manifest: largeManifest() }),
  ],
  'PUT /v1/maps/chunks': ['/v1/maps/chunks', uploadChunks],
  'GET /openapi.json': ['/openapi.json'],
  'GET /readyz': ['/readyz'],
  'GET /metrics': ['admin/metrics'],
  'GET /v1/projects': ['admin/v1/projects'],
  'GET /v1/projects/{projectId}/keys': [`admin/v1/projects/${projectId}/keys`],
  'POST /v1/projects/{projectId}/keys': [`admin/v1/projects/${projectId}/keys`, () => ({ method: 'POST' })],
  'the first request after a change of a key': [
    '/v1/consumers/c000',
    () => send(`admin/v1/projects/${projectId}/keys/00000001/rotate`, { method: 'POST' }).then(() => ({})),
  ],
  'POST …/rotate': [`admin/v1/projects/${projectId}/keys/00000002/rotate`, () => ({ method: 'POST' })],
  'DELETE …/keys/{keyId}': [`admin/v1/projects/${projectId}/keys/00000003`, () => ({ method: 'DELETE' })],
}

const width = Math.max(...Object.keys(routes).map((name) => name.length))
for (const [name, route] of Object.entries(routes)) {
  if (!new RegExp(values.only).test(name)) continue
  const turns = []
  const sums = []
  let status = ''
  for (let round = 0; round < Number(values.rounds); round++) {
    const [path, makeRequest = () => ({})] = route
    const request = await makeRequest()
    await ask('begin')
    status = await send(path, request)
    const { longestMs, busyMs } = await ask('end')
    turns.push(longestMs)
    sums.push(busyMs)
  }
  const shown = [Math.min(...turns), medianOf(turns), medianOf(sums)].map((ms) => ms.toFixed(1).padStart(7))
  console.log(`${name.padEnd(width)} ${shown.join(' ')}  ${status}`)
}
child.disconnect()

/** @param {number[]} numbers */
function medianOf(numbers) {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0
}

/** @param {string} message */
async function ask(message) {
  const answer = once(child, 'message')
  child.send(message)
  return (await answer)[0]
}

/** @param {string} path @param {RequestInit} request */
async function send(path, request) {
  const isAdmin = path.startsWith('admin')
  const headers = isAdmin
    ? { Authorization: `Bearer ${adminToken}` }
    : { 'X-Project-Id': projectId, 'X-Ingestion-Key': key }
  const response = await fetch(isAdmin ? adminUrl + path.slice(5) : url + path, {
    ...request,
    headers: { ...headers, ...request.headers },
  })
  const body = await response.arrayBuffer()
  return `${response.status}, ${body.byteLength} bytes`
}

/** A cursor before the build that has many places. */
function listCursor() {
  const text = Buffer.from(JSON.stringify([`${manyPlacesBuild}~`]))
  const check = Buffer.alloc(4)
  check.writeUInt32BE(crc32(text, crc32(projectId, 3)))
  return Buffer.concat([Buffer.of(3), check, text]).toString('base64url')
}

/** @param {string} directory */
async function prepare(directory) {
  const ingest = createIngest({ store: await openLmdbStore(directory, { create: false }) })
  const [oldest] = await ingest.keys.list(projectId)
  if (!oldest) throw new Error('The directory is not that of the large project.')
  const { key } = await ingest.keys.rotate(projectId, oldest.keyId)
  const cursor = await ingest.project(projectId).lastCursor()
  await ingest.close()
  return { key, cursor }
}
