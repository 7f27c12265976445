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
  app.get('/hello', async () => 'hello\n')
  app.register(async (scope) => {
    // Ingest reads the body itself, under its own limits
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (_request, _body, done) => done(null))
    scope.all('/v1/*', (request, reply) => {
      reply.hijack()
      handle(request.raw, reply.raw)
    })
  })
  await app.listen({ port, host: '127.0.0.1' })
  return { ingest, server: app.server }
}

await checkServer(start)
