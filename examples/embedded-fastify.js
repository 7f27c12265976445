// @ts-check
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { createHandler } from '@ingest/server'
import { fastify } from 'fastify'
import { checkServer } from './check.js'

/**
 * @param {string} directory
 * @param {number} port
 */
async function start(directory, port) {
  const ingest = createIngest({ store: await openLmdbStore(directory) })
  const handle = createHandler(ingest)
  const app = fastify()
  // before Fastify parses the body; the last argument is called for paths that are not Ingest's
  app.addHook('onRequest', (request, reply, next) => handle(request.raw, reply.raw, next))
  app.get('/hello', async () => 'hello\n')
  await app.listen({ port, host: '127.0.0.1' })
  return { ingest, server: app.server }
}

await checkServer(start)
