import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { gunzipSync } from 'node:zlib'
import { createIngest, openMemoryStore } from '@ingest/core'
import { createHandler } from '@ingest/server'

type Fault = (req: IncomingMessage, res: ServerResponse, store: () => Promise<void>) => Promise<void>

const answer =
  (status: number, headers: Record<string, string> = {}, body = ''): Fault =>
  async (req, res) => {
    await buffer(req)
    res.writeHead(status, headers).end(body)
  }

/** What stands between a game and Ingest. After `store` the batch is stored, and the game does not know. */
const faults: Record<string, Fault> = {
  400: answer(400),
  401: answer(401),
  404: answer(404),
  413: answer(413),
  429: answer(429, { 'Retry-After': '3' }),
  500: answer(500, { 'Content-Type': 'text/html' }, '<html>'),
  503: answer(503, { 'Retry-After': '120' }),
  redirect: answer(307, { Location: '/' }),
  page: answer(202, {}, '<html>'),
  'other answer': answer(202, {}, '{"accepted":0,"duplicates":0,"rejected":[]}'),
  'reset before': async (req) => void req.socket.destroy(),
  'reset after': async (req, _res, store) => {
    await store()
    req.socket.resetAndDestroy()
  },
  'cut after': async (req, res, store) => {
    await store()
    res.writeHead(202, { 'Content-Length': '40' })
    res.write('{"accepted":1,', () => req.socket.destroySoon())
  },
  '500 after': async (_req, res, store) => {
    await store()
    res.writeHead(500).end()
  },
  'no answer after': async (_req, _res, store) => await store(),
}

export const faultNames: readonly string[] = Object.keys(faults)

/** Ingest behind random faults. `onSilence` is called when a request will get no response. */
export async function openFaultyServer(projectId: string, choose: () => string | undefined, onSilence: () => void) {
  const ingest = createIngest({ store: openMemoryStore(), authenticate: () => true })
  const handle = createHandler(ingest)
  const server = createServer(async (req, res) => {
    const name = choose()
    if (name === undefined) return handle(req, res)
    await faults[name]?.(req, res, async () => {
      const body = await buffer(req)
      await ingest.project(projectId).submitBatch(req.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body)
    })
    if (name.startsWith('no answer')) onSilence()
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
