import type { ServerResponse } from 'node:http'

/** A request that a fault responds to. */
export interface FaultyRequest {
  /** Reads the body to its end. */
  read(): Promise<unknown>
  /** Stores the batch, without a response. */
  store(): Promise<unknown>
}

/** Responds in place of Ingest, or not at all. */
export type Fault = (res: ServerResponse, request: FaultyRequest) => Promise<void>

function respond(status: number, headers: Record<string, string> = {}, body = ''): Fault {
  return async (res, { read }) => {
    await read()
    res.writeHead(status, headers).end(body)
  }
}

/** Faults between a sender and Ingest. After a fault named `… after`, the batch is stored. */
export const faults = {
  400: respond(400),
  401: respond(401),
  404: respond(404),
  408: respond(408),
  413: respond(413),
  429: respond(429, { 'Retry-After': '3' }),
  500: respond(500, { 'Content-Type': 'text/html' }, '<html>'),
  502: respond(502),
  503: respond(503, { 'Retry-After': '120' }),
  redirect: respond(307, { Location: '/' }),
  page: respond(202, {}, '<html>'),
  'other result': respond(202, {}, '{"accepted":0,"duplicates":0,"rejected":[]}'),
  'reset before': async (res) => void res.socket?.destroy(),
  'reset after': async (res, { store }) => {
    await store()
    res.socket?.resetAndDestroy()
  },
  'cut after': async (res, { store }) => {
    await store()
    res.writeHead(202, { 'Content-Length': '40' })
    res.write('{"accepted":1,', () => res.socket?.destroySoon())
  },
  '500 after': async (res, { store }) => {
    await store()
    res.writeHead(500).end()
  },
  'stall before': async (_res, { read }) => void (await read()),
  'stall after': async (_res, { store }) => void (await store()),
} satisfies Record<string, Fault>

export type FaultName = `${keyof typeof faults}`

export const faultNames = Object.keys(faults) as readonly FaultName[]

/** Random numbers in [0, 1) from a seed (mulberry32), to repeat the faults of a run. */
export function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
