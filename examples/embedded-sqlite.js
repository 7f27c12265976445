// @ts-check
import { createServer } from 'node:http'
import { join } from 'node:path'
import { createIngest } from '@ingest/core'
import { createHandler } from '@ingest/server'
import { checkServer } from './check.js'
import { openSqliteStore } from './sqlite-store.js'

/**
 * @param {string} directory
 * @param {number} port
 */
async function start(directory, port) {
  const ingest = createIngest({ store: openSqliteStore(join(directory, 'ingest.db')) })
  const handle = createHandler(ingest)
  const server = createServer((req, res) => {
    // called for paths that are not Ingest's
    handle(req, res, () => {
      res.statusCode = req.url === '/hello' ? 200 : 404
      res.end(req.url === '/hello' ? 'hello\n' : undefined)
    })
  })
  return { ingest, server: server.listen(port, '127.0.0.1') }
}

await checkServer(start)
