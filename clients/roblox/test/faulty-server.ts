import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { gunzipSync } from 'node:zlib'
import { type FaultName, faults } from '@ingest/checks/sender'
import { createIngest, openMemoryStore } from '@ingest/core'
import { createHandler } from '@ingest/server'

/** Ingest behind random faults. `onSilence` is called when a request will get no response. */
export async function openFaultyServer(projectId: string, choose: () => FaultName | undefined, onSilence: () => void) {
  const ingest = createIngest({ store: openMemoryStore(), authenticate: () => true })
  const handle = createHandler(ingest)
  const server = createServer(async (req, res) => {
    const name = choose()
    if (name === undefined) return handle(req, res)
    const read = () => buffer(req)
    const store = async () => {
      const body = await read()
      await ingest.project(projectId).submitBatch(req.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body)
    }
    await faults[name](res, { read, store })
    if (name.startsWith('stall')) onSilence()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    ingest,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      await ingest.close()
    },
  }
}
