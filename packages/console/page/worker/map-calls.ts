import { RequestError } from '../api/request-error.ts'
import type { CallContext } from './call-context.ts'
import { NotJson } from './json-bytes.ts'
import {
  excerptAround,
  findPointer,
  type JsonDocument,
  type JsonStep,
  type JsonValue,
  openDocument,
  readChildren,
  readPointer,
  readRoot,
  readText,
} from './json-document.ts'
import { type LoadProgress, readBody } from './read-body.ts'

/** A complete map, as its status names it. */
export interface MapVersion {
  buildId: string
  placeId: string
  digest: string
  size: number
  contentType: string
}

/** `problem` says where the bytes are not JSON. */
export type OpenedMap = { root: JsonValue } | { problem: { at: number; excerpt: string } }

/** Calls for the map that is open: one at a time, which the calls after `openMap` refer to. */
export function createMapCalls() {
  let opened: { digest: string; bytes: Uint8Array<ArrayBuffer> } | undefined
  let document: JsonDocument | undefined

  function current(): JsonDocument {
    if (!document) throw new Error('No map is open.')
    return document
  }

  return {
    /** Fetches a JSON map and checks it. */
    async openMap(map: MapVersion, context: CallContext<LoadProgress>): Promise<OpenedMap> {
      if (opened?.digest !== map.digest) {
        // the one before is free before the next is loaded
        opened = undefined
        document = undefined
        opened = { digest: map.digest, bytes: await fetchMapBytes(map, context) }
      }
      try {
        document ??= openDocument(opened.bytes)
        return { root: readRoot(document) }
      } catch (error) {
        if (!(error instanceof NotJson)) throw error
        return { problem: { at: error.at, excerpt: excerptAround(opened.bytes, error.at) } }
      }
    },

    /** A slice of the members or elements of the value that begins at `at`. */
    async listChildren({ at, from }: { at: number; from: number }, _context: CallContext): Promise<JsonValue[]> {
      return readChildren(current(), at, from)
    },

    /** The text of a string or of a number, up to 100,000 characters. */
    readText: async (at: number, _context: CallContext) => readText(current(), at),

    readPointer: async (steps: readonly JsonStep[], _context: CallContext) => readPointer(current(), steps),

    findPointer: async (pointer: string, _context: CallContext) => findPointer(current(), pointer),

    /** The bytes of a map, to be saved: those of the open map are not fetched again. */
    async downloadMap(map: MapVersion, context: CallContext<LoadProgress>): Promise<Blob> {
      // no type that a browser would show instead of saving it
      const options = { type: 'application/octet-stream' }
      if (opened?.digest === map.digest) return new Blob([opened.bytes], options)
      const response = await fetchContent(map, context)
      // the browser holds blobs outside of the page's memory, if need be on disk
      let saved = new Blob([])
      let blocks: Uint8Array<ArrayBuffer>[] = []
      let held = 0
      const onBlock = (block: Uint8Array<ArrayBuffer>) => {
        blocks.push(block)
        held += block.length
        if (held < heldBytesMax) return
        saved = new Blob([saved, ...blocks])
        blocks = []
        held = 0
      }
      await readBody(response, map.size, onBlock, context)
      return new Blob([saved, ...blocks], options)
    },
  }
}

const heldBytesMax = 8 << 20

/** The bytes of a complete map. */
export async function fetchMapBytes(
  map: MapVersion,
  context: CallContext<LoadProgress>,
): Promise<Uint8Array<ArrayBuffer>> {
  const response = await fetchContent(map, context)
  const bytes = new Uint8Array(map.size)
  let length = 0
  const onBlock = (block: Uint8Array) => {
    bytes.set(block, length)
    length += block.length
  }
  await readBody(response, map.size, onBlock, context)
  return bytes
}

async function fetchContent(map: MapVersion, { api, signal }: CallContext<LoadProgress>): Promise<Response> {
  const { placeId, buildId, digest } = map
  const response = await api.fetch('v1/maps/content', { query: { placeId, buildId }, signal })
  if (isVersion(response.headers.get('ETag'), digest)) return response
  response.body?.cancel().catch(() => {})
  throw new RequestError('unavailable', 'The map was replaced meanwhile.')
}

/** A proxy that compresses makes an entity tag weak, adds to it or takes it away. */
export function isVersion(etag: string | null, digest: string): boolean {
  return etag === null || etag.includes(digest)
}
