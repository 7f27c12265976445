// @ts-check
import { createIngest } from '@ingest/core'
import { openLmdbStore } from '@ingest/lmdb'
import { createHandler } from '@ingest/server'
import express from 'express'
import { checkServer } from './check.js'

/**
 * @param {string} directory
 * @param {number} port
 */
async function start(directory, port) {
  const ingest = createIngest({ store: await openLmdbStore(directory) })
  const app = express()
  // before any body parser: Ingest reads the body itself, under its own limits
  app.use(createHandler(ingest))
  app.get('/hello', (_req, res) => void res.send('hello\n'))
  return { ingest, server: app.listen(port, '127.0.0.1') }
}

await checkServer(start)
