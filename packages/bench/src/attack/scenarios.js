/**
 * What is measured one after the other on one server, round by round.
 *
 * @typedef {object} Scenario
 * @property {string} name
 * @property {number} [events] how many the attacking project has stored before
 * @property {boolean} [hasChunk] whether it has a chunk stored before
 * @property {readonly Phase[]} phases the first is what the others are compared with
 * @property {string} [drainUnder] title of the phase under which the server is drained
 */

/** @typedef {{ title: string, attack?: Record<string, unknown> }} Phase */

const quiet = { title: 'no attack' }

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
]
