import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { type ServeOptions, serve } from '../src/serve.ts'
import { openRaw } from './raw-connection.ts'
import { openTestIngest } from './test-ingest.ts'

/** Listens until the end of the test. Returns the port. */
export async function listen(t: Test, server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return (server.address() as AddressInfo).port
}

/** Serves an Ingest until the end of the test; a connection is open, and `connect` opens others. */
export async function openServed(t: Test, options: Partial<ServeOptions> = {}) {
  const opened = await openTestIngest()
  const { ingest = opened.ingest } = options
  const served = await serve({ port: 0, closeTimeoutMs: 1, ...options, ingest })
  t.teardown(() => served.close())
  const connect = async () => {
    const raw = await openRaw(served.port, { tls: options.tls !== undefined })
    t.teardown(() => raw.socket.destroy())
    return raw
  }
  return { ...opened, ingest, served, connect, raw: await connect() }
}
