import { createIngest, type IngestOptions, openMemoryStore, type Scope } from '@ingest/core'
import { type ServeOptions, serve } from '@ingest/server'
import type { Test } from 'tap'
import { createConsole } from '../src/index.ts'

export const projectId = 'game-1'

type ServeChoice = Pick<ServeOptions, 'port' | 'rateLimits'>
export type ServedOptions = ServeChoice & Pick<IngestOptions, 'rejected' | 'now'>

/** A real server with a console on a memory store of its own, until the end of the test. */
export async function startConsole(t: Test, { rejected = {}, now = Date.now, ...options }: ServedOptions = {}) {
  const ingest = createIngest({ store: openMemoryStore(), rejected, now })
  const newKey = async (...scopes: Scope[]) => (await ingest.keys.create(projectId, { scopes })).key
  const start = async ({ port = 0, ...limits }: ServeChoice = {}) => {
    const server = await serve({ ingest, console: createConsole(), port, closeTimeoutMs: 1, ...limits })
    t.teardown(() => server.close())
    return server
  }
  t.teardown(() => ingest.close())
  const server = await start(options)
  return {
    /** The address of the page. */
    url: `${server.url}/console/`,
    server,
    /** Starts another server on the same store. */
    start,
    ingest,
    project: ingest.project(projectId),
    /** A key with the scope `read`. */
    key: await newKey('read'),
    newKey,
  }
}
