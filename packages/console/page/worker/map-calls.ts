import { RequestError } from '../api/request-error.ts'
import { countAdded, keysOfParts, type PartKeys } from '../heat/compare-parts.ts'
import { findParts, type Parts } from '../heat/parts.ts'
import type { CallContext } from './call-context.ts'
import { type LoadProgress, readBody } from './read-body.ts'

/** A version of a complete map, according to its status. */
export interface MapVersion {
  buildId: string
  placeId: string
  digest: string
  size: number
  contentType: string
}

/** The beginning of a JSON text of `length` characters. */
export interface Preview {
  text: string
  length: number
}

/** `problem` says why the bytes are not JSON in UTF-8. */
type OpenedMap = { preview: Preview } | { problem: string }

const previewCharsMax = 20_000

/** The number of parts of two maps, and of those that only one of them has. */
export interface MapComparison {
  before: number
  after: number
  added: number
  removed: number
  /** Whether a map has more parts than were counted. */
  isCut: boolean
}

/** The map that was parsed last, which other calls draw. */
export interface LastMap {
  /** Undefined before the first map; without parts if it is not JSON. */
  parts: { digest: string; found: Parts | undefined } | undefined
}

/** Calls that load a whole map. */
export function createMapCalls(last: LastMap) {
  return {
    /** Fetches a JSON map, and finds its parts. The preview keeps its exact spelling. */
    async openMap(map: MapVersion, context: CallContext<LoadProgress>): Promise<OpenedMap> {
      const bytes = await fetchMapBytes(map, context)
      try {
        const text = decodeMap(bytes)
        last.parts = { digest: map.digest, found: findParts(JSON.parse(text)) }
        return { preview: { text: text.slice(0, previewCharsMax), length: text.length } }
      } catch (error) {
        return { problem: error instanceof Error ? error.message : String(error) }
      }
    },

    /** Counts the parts of two maps; undefined if one is not JSON. */
    async compareMaps(
      maps: { before: MapVersion; after: MapVersion },
      context: CallContext<LoadProgress>,
    ): Promise<MapComparison | undefined> {
      // one after another, so that only one document is in memory at a time
      const before = await loadKeys(maps.before, context)
      const after = before && (await loadKeys(maps.after, context))
      if (!before || !after) return undefined
      return {
        before: before.length,
        after: after.length,
        added: countAdded(before, after),
        removed: countAdded(after, before),
        isCut: before.isCut || after.isCut,
      }
    },

    /** The bytes of a map, to be saved as a file. */
    async downloadMap(map: MapVersion, context: CallContext<LoadProgress>): Promise<Blob> {
      const response = await fetchContent(map, context)
      // the browser keeps blobs outside of the page's memory, if necessary on disk
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
      // a type that browsers save instead of showing
      return new Blob([saved, ...blocks], { type: 'application/octet-stream' })
    },
  }
}

/** Maximum bytes of a map that is parsed in a browser tab. */
export const parsedBytesMax = 32 << 20

/** @throws if the bytes are not JSON in UTF-8 */
export function parseMap(bytes: Uint8Array): unknown {
  return JSON.parse(decodeMap(bytes))
}

function decodeMap(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
}

async function loadKeys(map: MapVersion, context: CallContext<LoadProgress>): Promise<PartKeys | undefined> {
  const bytes = await fetchMapBytes(map, context)
  try {
    return keysOfParts(parseMap(bytes))
  } catch {
    return undefined
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
  const { placeId, buildId, digest, contentType } = map
  const response = await api.fetch('v1/maps/content', contentType, { query: { placeId, buildId }, signal })
  if (isVersion(response.headers.get('ETag'), digest)) return response
  response.body?.cancel().catch(() => {})
  throw new RequestError('unavailable', 'The map was replaced meanwhile.')
}

/** Whether an entity tag has this digest. A compressing proxy makes the tag weak, extends or removes it. */
export function isVersion(etag: string | null, digest: string): boolean {
  return etag === null || etag.includes(digest)
}
