import { serveCalls } from '@ingest/bench/serve-calls'
import { open } from 'lmdb'
import { newEvents, portOf, servePeer } from './serve-peer.js'

// Fastify and one LMDB B-tree of (project, eventId) → event, with lmdb's own defaults: it batches what is put into
// transactions by itself, and each promise resolves once the event is on disk.
/** @type {import('lmdb').RootDatabase<object, [string, string]>} */
let table
/** @type {import('fastify').FastifyInstance} */
let app
let projectId = ''

serveCalls({
  async start(options) {
    projectId = options.projectId
    table = open({ path: options.directory, noSubdir: false, encoding: 'json' })
    app = await servePeer(async (project, events) => {
      const puts = events.map((event) =>
        table.ifNoExists([project, event.eventId], () => {
          table.put([project, event.eventId], event)
        }),
      )
      const stored = await Promise.all(puts)
      await table.flushed
      return stored.filter(Boolean).length
    })
    return { port: portOf(app) }
  },

  async preload({ events }) {
    for (const group of newEvents(projectId, events, 10_000)) {
      await table.transaction(() => {
        for (const event of group) table.put([projectId, event.eventId], event)
      })
    }
    await table.flushed
  },

  async stop() {
    await app?.close()
    await table?.close()
  },
})
