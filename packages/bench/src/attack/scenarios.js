/**
 * Phases that are measured one after another on one server, in each round.
 *
 * @typedef {object} Scenario
 * @property {string} name
 * @property {number} [events] that the attacking project has stored before
 * @property {number} [eventsPerBatch] of the honest senders. Default 100
 * @property {boolean} [hasChunk] whether the attacking project has stored a chunk before
 * @property {readonly Phase[]} phases the others are compared with the first
 * @property {string} [drainUnder] title of the phase during which the server is drained
 */

/** @typedef {{ title: string, attack?: Record<string, unknown> }} Phase */

const quiet = { title: 'no attack' }
const mebibyte = 2 ** 20
const mapStart = '{"placeId":"1","buildId":"b","map":'
const chunksStart = `{"chunks":[{"digest":"sha256:${'0'.repeat(64)}","data":"AAAA"}],"x":`

/** @type {readonly Scenario[]} */
export const scenarios = [
  {
    name: 'pipelining',
    phases: [
      { title: '20 connections, one GET /nope after another', attack: { attack: 'plain', connections: 20 } },
      { title: '20 connections that pipeline', attack: { attack: 'flood', connections: 20, isReading: true } },
      {
        title: '20 that pipeline and read nothing',
        attack: { attack: 'flood', connections: 20, isReading: false },
      },
      { title: '2 MB of requests at once', attack: { attack: 'burst', bytes: 2_000_000 } },
      quiet,
    ],
  },
  {
    name: 'verification',
    hasChunk: true,
    phases: [
      quiet,
      {
        title: '16 manifests of 10,000 × 1 MiB',
        attack: { attack: 'manifests', connections: 16, chunks: 10_000, isDryRun: false },
      },
      {
        title: 'the same, dryRun',
        attack: { attack: 'manifests', connections: 16, chunks: 10_000, isDryRun: true },
      },
    ],
    drainUnder: '16 manifests of 10,000 × 1 MiB',
  },
  {
    name: 'readers',
    events: 200_000,
    phases: [
      quiet,
      { title: '128 stalled readers', attack: { attack: 'stalled', connections: 128 } },
      {
        title: '16 active readers',
        attack: { attack: 'readers', connections: 16, path: '/v1/events?limit=10000' },
      },
      {
        title: '64 scans for a type that is not there',
        attack: { attack: 'readers', connections: 64, path: '/v1/events?type=none-such&limit=10000' },
      },
    ],
  },
  {
    name: 'json',
    phases: [
      quiet,
      { title: '8 senders of 261 KB of keys', attack: { attack: 'keys', connections: 8, bytes: 261_000 } },
    ],
  },
  {
    name: 'uploads',
    eventsPerBatch: 20,
    phases: [
      quiet,
      { title: '16 maps of 1 MiB of members', attack: membersOf('/v1/maps', mapStart, mebibyte) },
      { title: 'the same, dryRun', attack: membersOf('/v1/maps?dryRun=true', mapStart, mebibyte) },
      {
        title: '16 uploads of chunks beside 4 MiB of members',
        attack: membersOf('/v1/maps/chunks', chunksStart, 4 * mebibyte),
      },
      { title: '64 of tiny maps', attack: { attack: 'tinyMaps', connections: 64 } },
      { title: '16 unfinished uploads', attack: { attack: 'unfinished', connections: 16 } },
    ],
  },
  {
    name: 'lookups',
    eventsPerBatch: 20,
    phases: [
      quiet,
      { title: '16 ask for a map of 11,000 chunks', attack: { attack: 'status', connections: 16, chunks: 11_000 } },
      {
        title: '250 long polls that match nothing',
        attack: { attack: 'polls', connections: 250, path: '/v1/events?type=none&after=end&wait=10' },
      },
      {
        title: '64 read at the end of the log',
        attack: { attack: 'readers', connections: 64, path: '/v1/events?after=end' },
      },
    ],
  },
]

/** @param {string} path @param {string} start @param {number} bytes */
function membersOf(path, start, bytes) {
  // below the limit of the body, because `start` is added
  return { attack: 'members', connections: 16, path, start, bytes: bytes - 4096 }
}
