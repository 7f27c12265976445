// @ts-check
import { serve } from '@hono/node-server'
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { toFetchHandler } from '@ingest/server'
import { Hono } from 'hono'
import { checkServer } from './check.js'

/**
 * @param {string} directory
 * @param {number} port
 */
async function start(directory, port) {
  const ingest = createIngest({ store: await openLmdbStore(directory) })
  const handle = toFetchHandler(ingest)
  const app = new Hono()
  app.get('/hello', (c) => c.text('hello\n'))
  app.all('/v1/*', (c) => handle(c.req.raw))
  return { ingest, server: serve({ fetch: app.fetch, port, hostname: '127.0.0.1' }) }
}

await checkServer(start)
